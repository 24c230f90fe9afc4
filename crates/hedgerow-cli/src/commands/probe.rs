//! `hedgerow probe`: one probe now, with its parts, and how many probes origins get.

use clap::{Args, Subcommand};
use hedgerow_core::name::OriginGroupName;
use http::Method;
use serde_json::{Value, json};

use super::ServerOptions;
use super::origin_group::{milliseconds, path};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Probes: send one now, or see how many there are.
#[derive(Debug, Args)]
pub struct ProbeCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lets the server send one probe now and shows its parts. It is no sample of any group. Exits with 1 if it is no success.
    Check(Check),
    /// Says how many probes the origins of a group get.
    Estimate {
        /// The group.
        #[arg(value_name = "GROUP")]
        group: OriginGroupName,
        /// How many servers serve the group.
        #[arg(long, value_name = "COUNT", default_value_t = 1)]
        nodes: u32,
    },
}

#[derive(Debug, Args)]
struct Check {
    /// What is probed.
    #[arg(
        value_name = "URL",
        required_unless_present = "group",
        conflicts_with = "group"
    )]
    url: Option<String>,
    /// The origins of this group that are enabled, with its settings.
    #[arg(long, value_name = "GROUP")]
    group: Option<OriginGroupName>,
    /// Only this origin of the group, also if it is disabled.
    #[arg(long, value_name = "NAME", requires = "group")]
    origin: Option<String>,
    /// The method: `HEAD` (by default) or `GET`.
    #[arg(long, value_name = "METHOD", conflicts_with = "group")]
    method: Option<String>,
    /// What the `Host` header says; the URL's host by default.
    #[arg(long, value_name = "HOST", conflicts_with = "group")]
    host_header: Option<String>,
    /// Seconds that it may take, 1 to 60; 5 by default.
    #[arg(long, value_name = "SECONDS", conflicts_with = "group")]
    timeout: Option<u32>,
    /// Whether the certificate must be for the host's name; it must, unless this says otherwise.
    #[arg(long, value_name = "BOOL", conflicts_with = "group")]
    verify_certificate_name: Option<bool>,
}

const ESTIMATE: [Column; 5] = [
    ("ORIGIN", "/name"),
    ("NODES", "/count"),
    ("IDLE LEVEL", "/idle_level"),
    ("A MINUTE", "/minute"),
    ("A DAY", "/day"),
];

impl ProbeCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Check(check) => check.run(&client, format).await,
            Action::Estimate { group, nodes } => estimate(&client, &group, nodes, format).await,
        }
    }
}

impl Check {
    async fn run(self, client: &Client, format: Format) -> Result<(), Failure> {
        let body = match &self.group {
            Some(group) => json!({ "group": group.as_str(), "origin": self.origin }),
            None => json!({
                "url": self.url,
                "method": self.method,
                "host_header": self.host_header,
                "timeout_s": self.timeout,
                "verify_certificate_name": self.verify_certificate_name,
            }),
        };
        let reply = client.admin(Method::POST, "/probe", Some(&body)).await?;
        let probes = super::value(&reply.body)?;
        match format {
            Format::Json => output::json(&reply.body),
            Format::Table => probes.iter().for_each(show),
        }
        let failed = probes.iter().filter(|probe| probe["result"] != "success");
        match failed.count() {
            0 => Ok(()),
            failed => Err(Failure::new(format!(
                "{failed} of {} probes failed",
                probes.len()
            ))),
        }
    }
}

fn show(probe: &Value) {
    let text = |name: &str| probe[name].as_str().unwrap_or("-").to_owned();
    let origin = probe["origin"].as_str();
    let origin = origin.map_or(String::new(), |origin| format!("{origin}: "));
    let line = format!("{origin}{} {}", text("method"), text("url"));
    output::line(&output::printable(&line));
    let part = |name: &str| {
        let micros = probe[name].as_u64();
        micros.map_or("-".to_owned(), milliseconds)
    };
    let status = probe["status"].as_u64();
    let rows = [
        ("result", text("result")),
        (
            "status",
            status.map_or("-".to_owned(), |status| status.to_string()),
        ),
        ("address", text("address")),
        ("DNS", part("dns_us")),
        ("connect", part("connect_us")),
        ("TLS", part("tls_us")),
        ("first byte", part("first_byte_us")),
        ("total", part("total_us")),
        ("with DNS", part("elapsed_us")),
    ];
    for (name, value) in rows {
        output::line(&output::printable(&format!("  {name:10}  {value}")));
    }
    if let Some(message) = probe["message"].as_str() {
        output::line(&output::printable(&format!("  {message}")));
    }
}

async fn estimate(
    client: &Client,
    group: &OriginGroupName,
    nodes: u32,
    format: Format,
) -> Result<(), Failure> {
    let path = format!("{}/estimate?nodes={nodes}", path(group));
    let reply = client.admin(Method::GET, &path, None).await?.body;
    if format == Format::Json {
        output::json(&reply);
        return Ok(());
    }
    let origins = reply["estimate"].as_array().into_iter().flatten();
    let rounded = |value: &Value| (value.as_f64().unwrap_or(0.0) * 100.0).round() / 100.0;
    let rows = origins.map(|origin| {
        let nodes = &origin["nodes"][0];
        json!({
            "name": origin["name"],
            "count": nodes["count"],
            "idle_level": nodes["idle_level"],
            "minute": rounded(&origin["probes_per_minute"]),
            "day": rounded(&origin["probes_per_day"]),
        })
    });
    let rows: Vec<Value> = rows.collect();
    output::list(&rows, &ESTIMATE, format);
    super::show_warnings(&reply);
    Ok(())
}

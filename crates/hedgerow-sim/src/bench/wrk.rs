//! The generator beside `wrk`, where that is installed: both send the same requests to the bare receiver. A generator that
//! reaches less than 0.8 of it measures itself and not the server.

use std::fs;
use std::process::{Command, Stdio};

use super::cases::RAW_HTTP;
use super::events;
use super::{Bench, Figures};

/// Connections, as in [`RAW_HTTP`].
const CONNECTIONS: usize = 64;
/// `wrk` takes whole seconds.
const SECONDS_MIN: u64 = 1;

/// Measures it; no figures without `wrk`.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let mut figures = Figures::default();
    let script = bench.path("wrk.lua");
    let body = events::body(0, 1);
    let body = String::from_utf8_lossy(&body).into_owned();
    let text = format!(
        "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = [==[{body}]==]\n"
    );
    fs::write(&script, text).map_err(|error| format!("{}: {error}", script.display()))?;
    let seconds = bench.options.size.time.as_secs().max(SECONDS_MIN);
    let told = Command::new("wrk")
        .arg("--threads=1")
        .arg(format!("--connections={CONNECTIONS}"))
        .arg(format!("--duration={seconds}s"))
        .arg("--script")
        .arg(&script)
        .arg(bench.receiver.endpoints[0].url())
        .stderr(Stdio::null())
        .output();
    let Ok(told) = told else {
        return Ok(figures);
    };
    let Some(rate) = rate_in(&String::from_utf8_lossy(&told.stdout)) else {
        return Err("wrk says no rate".to_owned());
    };
    figures.set("rate", rate);
    if let Some(generator) = bench.this_round(RAW_HTTP, "rate") {
        figures.set("generator_of_wrk", generator / rate);
    }
    Ok(figures)
}

/// `GET` requests, as fast as they are answered.
pub struct Load {
    /// Where they go.
    pub url: String,
    /// How many at a time.
    pub connections: usize,
}

/// What a load came to.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// Requests that were answered.
    pub requests: f64,
    rate: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Answers of other statuses than 2xx and 3xx, and connections that broke.
    refused: f64,
}

impl Load {
    /// Runs it for the bench's time; `None` without `wrk`.
    pub fn run(&self, bench: &Bench) -> Result<Option<Told>, String> {
        let seconds = bench.options.size.time.as_secs().max(SECONDS_MIN);
        self.run_for(seconds)
    }

    /// Runs it for a second.
    pub fn warm_up(&self) -> Result<(), String> {
        self.run_for(SECONDS_MIN).map(drop)
    }

    fn run_for(&self, seconds: u64) -> Result<Option<Told>, String> {
        let told = Command::new("wrk")
            .arg("--threads=1")
            .arg(format!("--connections={}", self.connections))
            .arg(format!("--duration={seconds}s"))
            .arg("--latency")
            .arg(&self.url)
            .stderr(Stdio::null())
            .output();
        let Ok(told) = told else { return Ok(None) };
        let text = String::from_utf8_lossy(&told.stdout);
        let told = Told::read(&text).ok_or_else(|| format!("wrk says no rate: {text}"))?;
        Ok(Some(told))
    }
}

impl Told {
    /// What `wrk --latency` prints.
    fn read(text: &str) -> Option<Self> {
        let after = |beginning: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.trim().strip_prefix(beginning))
        };
        let (requests, _) = text.lines().find_map(|line| {
            let (count, rest) = line.trim().split_once(' ')?;
            let count = count.parse::<f64>().ok()?;
            rest.starts_with("requests in ").then_some((count, rest))
        })?;
        let errors = after("Socket errors:").unwrap_or_default();
        let errors = errors
            .split([',', ' '])
            .filter_map(|word| word.parse::<f64>().ok());
        let others = after("Non-2xx or 3xx responses:").and_then(|count| count.trim().parse().ok());
        Some(Self {
            requests,
            rate: rate_in(text)?,
            p50_ms: after("50%").and_then(milliseconds),
            p99_ms: after("99%").and_then(milliseconds),
            refused: errors.sum::<f64>() + others.unwrap_or(0.0),
        })
    }

    /// As figures of a row.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        figures.set("rate", self.rate);
        for (name, value) in [("p50_ms", self.p50_ms), ("p99_ms", self.p99_ms)] {
            if let Some(value) = value {
                figures.set(name, value);
            }
        }
        figures.set("refused", self.refused);
        figures
    }
}

/// A time as `wrk` writes it.
fn milliseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)];
    units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    })
}

/// The rate that `wrk` tells.
fn rate_in(told: &str) -> Option<f64> {
    let rate = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"))?;
    rate.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Told, rate_in};

    #[test]
    fn the_rate_is_found_in_what_wrk_says() {
        let told = "Running 1s test\n  1000 requests in 1.00s\nRequests/sec:  54321.09\nTransfer/sec: 4.5MB\n";
        assert_eq!(rate_in(told), Some(54321.09));
        assert_eq!(rate_in("unable to connect"), None);
    }
    #[test]
    fn times_and_troubles_are_found_in_what_wrk_says() {
        let told = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  Latency Distribution\n     \
                    50%  845.00us\n     75%    1.02ms\n     99%    2.50s \n  120000 requests in 2.00s, 130.00MB read\n  \
                    Socket errors: connect 0, read 1, write 0, timeout 2\n  Non-2xx or 3xx responses: 7\n\
                    Requests/sec:  60000.00\n";
        let expected = Told {
            requests: 120_000.0,
            rate: 60_000.0,
            p50_ms: Some(0.845),
            p99_ms: Some(2_500.0),
            refused: 10.0,
        };
        assert_eq!(Told::read(told), Some(expected));
        assert_eq!(Told::read("unable to connect"), None);
    }
}

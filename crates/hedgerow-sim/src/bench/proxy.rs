//! HAProxy and nginx as processes, set up as the edge is: as many threads as the machine has cores, connections kept on both
//! sides, round robin, the headers that a proxy adds, and no access log.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Bench;
use super::edge::THREADS;
use super::receiver::Endpoint;
use super::subject::TICKS_PER_SECOND;

/// How long a proxy may take until it accepts connections.
const START_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often it is tried.
const POLL: Duration = Duration::from_millis(10);
/// Idle connections to origins that are kept.
const KEPT: usize = 64;

/// A proxy that can be started.
pub struct Front {
    command: &'static str,
    arguments: Vec<String>,
    port: u16,
    /// Where its clients go.
    pub url: String,
}

/// The files of a certificate for 127.0.0.1, signed by itself.
pub struct Certificate {
    /// In PEM.
    pub chain: PathBuf,
    /// In PEM.
    pub key: PathBuf,
    /// Both in one file.
    both: PathBuf,
}

/// A proxy that runs. Dropping it ends it and its workers.
pub struct Proxy(Child);

impl Front {
    /// HAProxy before these origins.
    pub fn haproxy(
        bench: &Bench,
        origins: &[Arc<Endpoint>],
        has_tls: bool,
    ) -> Result<Self, String> {
        let port = free_port()?;
        let tls = if has_tls {
            format!(" ssl crt {}", bench.certificate()?.both.display())
        } else {
            String::new()
        };
        let mut text = format!(
            "global\n  nbthread {THREADS}\n  maxconn 4096\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 61s\n  timeout server 30s\n  http-reuse always\n\
             frontend edge\n  bind 127.0.0.1:{port}{tls}\n  option forwardfor\n  http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  \
             http-request set-header X-Forwarded-Proto {}\n  default_backend origins\n\
             backend origins\n  balance roundrobin\n  option httpchk HEAD /\n  default-server check inter 5s\n",
            scheme(has_tls)
        );
        for (number, origin) in origins.iter().enumerate() {
            add(
                &mut text,
                format_args!("  server origin-{number} {}\n", origin.address),
            );
        }
        let config = write(bench, "haproxy.cfg", &text)?;
        Ok(Self {
            command: "haproxy",
            arguments: vec!["-db".to_owned(), "-q".to_owned(), "-f".to_owned(), config],
            port,
            url: url(has_tls, port),
        })
    }

    /// nginx before these origins.
    pub fn nginx(bench: &Bench, origins: &[Arc<Endpoint>], has_tls: bool) -> Result<Self, String> {
        let port = free_port()?;
        let folder = bench.path("nginx");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = folder.display().to_string();
        let (tls, certificate) = if has_tls {
            let certificate = bench.certificate()?;
            let files = format!(
                "ssl_certificate {};\nssl_certificate_key {};\n",
                certificate.chain.display(),
                certificate.key.display()
            );
            (" ssl", files)
        } else {
            ("", String::new())
        };
        let mut text = format!(
            "worker_processes {THREADS};\ndaemon off;\npid {folder}/pid;\nerror_log stderr crit;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\naccess_log off;\nkeepalive_timeout 61s;\nkeepalive_requests 1000000000;\n"
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            add(
                &mut text,
                format_args!("{kind}_temp_path {folder}/{kind};\n"),
            );
        }
        text.push_str("upstream origins {\n");
        for origin in origins {
            add(&mut text, format_args!("server {};\n", origin.address));
        }
        add(
            &mut text,
            format_args!(
                "keepalive {KEPT};\nkeepalive_requests 1000000000;\n}}\n\
                 server {{\nlisten 127.0.0.1:{port}{tls};\n{certificate}location / {{\nproxy_pass http://origins;\n\
                 proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_set_header Host $http_host;\n\
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\nproxy_set_header X-Forwarded-Host $http_host;\n\
                 proxy_set_header X-Forwarded-Proto $scheme;\n}}\n}}\n}}\n"
            ),
        );
        let config = write(bench, "nginx.conf", &text)?;
        Ok(Self {
            command: "nginx",
            arguments: vec!["-p".to_owned(), folder, "-c".to_owned(), config],
            port,
            url: url(has_tls, port),
        })
    }
}

impl Proxy {
    /// Starts it and waits until it accepts connections; `None` where it is not installed.
    pub fn start(front: &Front) -> Result<Option<Self>, String> {
        let Some(program) = installed(front.command) else {
            return Ok(None);
        };
        let child = Command::new(&program)
            .args(&front.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut proxy = Self(child);
        let until = Instant::now() + START_WAIT_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, front.port)).is_err() {
            let ended = proxy.0.try_wait();
            if let Ok(Some(status)) = ended {
                return Err(format!("{} ended with {status}", front.command));
            }
            if Instant::now() > until {
                return Err(format!("{} does not listen", front.command));
            }
            std::thread::sleep(POLL);
        }
        Ok(Some(proxy))
    }

    /// Processor time of it and its workers so far.
    pub fn cpu_seconds(&self) -> Result<f64, String> {
        let own = u64::from(self.0.id());
        let processes = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
        let stats = processes.flatten().filter_map(|process| {
            let id: u64 = process.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(process.path().join("stat")).ok()?;
            // The name in parentheses may hold anything; the numbers follow it.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
            (id == own || number(1)? == own).then_some(number(11)? + number(12)?)
        });
        Ok(stats.sum::<u64>() as f64 / TICKS_PER_SECOND as f64)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx ends its workers itself, when it is asked to end.
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let until = Instant::now() + START_WAIT_MAX;
        while Instant::now() < until {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Certificate {
    /// Makes one, or finds the one that was made before.
    pub fn make(folder: &Path) -> Result<Self, String> {
        let files = Self {
            chain: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
            both: folder.join("both.pem"),
        };
        if files.both.exists() {
            return Ok(files);
        }
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .map_err(|error| format!("no certificate: {error}"))?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        for (path, text) in [
            (&files.chain, &chain),
            (&files.key, &key),
            (&files.both, &format!("{chain}{key}")),
        ] {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(files)
    }
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("writing to a String cannot fail");
}

const fn scheme(has_tls: bool) -> &'static str {
    if has_tls { "https" } else { "http" }
}

fn url(has_tls: bool, port: u16) -> String {
    format!("{}://127.0.0.1:{port}/", scheme(has_tls))
}

fn write(bench: &Bench, name: &str, text: &str) -> Result<String, String> {
    let path = bench.path(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

/// One that nobody listens on now. Neither of the two can tell which one the system picked for it.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    let address = address.map_err(|error| format!("no port: {error}"))?;
    Ok(address.port())
}

/// Where a program is. Servers are often in folders that only the administrator's shell looks into.
fn installed(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let folders = folders.chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join(command))
        .find(|program| program.is_file())
}

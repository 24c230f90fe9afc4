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

/// The rate that `wrk` tells.
fn rate_in(told: &str) -> Option<f64> {
    let rate = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"))?;
    rate.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rate_in;

    #[test]
    fn the_rate_is_found_in_what_wrk_says() {
        let told = "Running 1s test\n  1000 requests in 1.00s\nRequests/sec:  54321.09\nTransfer/sec: 4.5MB\n";
        assert_eq!(rate_in(told), Some(54321.09));
        assert_eq!(rate_in("unable to connect"), None);
    }
}

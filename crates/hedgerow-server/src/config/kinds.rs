//! How values are read and shown: durations, sizes, counts, addresses. Each kind is both ways, so that what is shown can
//! be read again.

use std::fmt::Display;
use std::marker::PhantomData;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hedgerow_core::retry::SlotMode;
use hedgerow_core::spec::Profile;
use hedgerow_io::http::Network;

use super::LogFormat;
use super::written::Value;
use crate::public_url::PublicUrl;
use crate::tls::TlsVersion;

/// A kind of value.
pub trait Kind {
    /// What it is in a checked configuration.
    type Of;

    /// Reads it, or says what it must be.
    fn read(&self, value: &Value) -> Result<Self::Of, String>;

    /// Shows it as TOML.
    fn show(&self, of: &Self::Of) -> String;
}

const UNITS_OF_TIME: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
const UNITS_OF_SIZE: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// A duration in whole milliseconds: `"30s"`.
pub struct Span {
    /// The shortest and the longest one.
    pub range: RangeInclusive<Duration>,
}

impl Kind for Span {
    type Of = Duration;

    fn read(&self, value: &Value) -> Result<Duration, String> {
        let rule = || {
            let (min, max) = (show_span(*self.range.start()), show_span(*self.range.end()));
            format!(
                "must be a duration from \"{min}\" to \"{max}\", such as \"30s\", \"250ms\" or \"5m\""
            )
        };
        let millis = text(value).and_then(|text| with_unit(text, &UNITS_OF_TIME));
        millis
            .map(Duration::from_millis)
            .filter(|span| self.range.contains(span))
            .ok_or_else(rule)
    }

    fn show(&self, of: &Duration) -> String {
        format!("\"{}\"", show_span(*of))
    }
}

/// A duration in whole seconds: what subscriptions declare and are shown in seconds.
pub struct Seconds(pub Span);

impl Kind for Seconds {
    type Of = Duration;

    fn read(&self, value: &Value) -> Result<Duration, String> {
        let span = text(value).and_then(|text| with_unit(text, &UNITS_OF_TIME));
        if self.0.read(value).is_ok() && span.is_some_and(|millis| millis % 1000 == 0) {
            return self.0.read(value);
        }
        let (min, max) = (self.0.range.start(), self.0.range.end());
        let (min, max) = (show_span(*min), show_span(*max));
        Err(format!(
            "must be a duration of whole seconds from \"{min}\" to \"{max}\", such as \"30s\" or \"5m\""
        ))
    }

    fn show(&self, of: &Duration) -> String {
        self.0.show(of)
    }
}

/// A list of durations.
pub struct Spans;

impl Kind for Spans {
    type Of = Vec<Duration>;

    fn read(&self, value: &Value) -> Result<Vec<Duration>, String> {
        let rule = || "must be a list of durations, such as [\"10s\", \"1m\"]".to_owned();
        let span = |text: &str| with_unit(text, &UNITS_OF_TIME).map(Duration::from_millis);
        texts(value)
            .and_then(|texts| texts.into_iter().map(span).collect::<Option<_>>())
            .ok_or_else(rule)
    }

    fn show(&self, of: &Vec<Duration>) -> String {
        show_list(of.iter().map(|span| show_span(*span)))
    }
}

/// A number of bytes: `"64MiB"`.
pub struct Size<T> {
    range: RangeInclusive<u64>,
    multiple_of: u64,
    of: PhantomData<T>,
}

impl<T> Size<T> {
    /// A size between these two.
    pub const fn new(range: RangeInclusive<u64>) -> Self {
        Self::in_steps(range, 1)
    }

    /// The same, in multiples of `multiple_of`.
    pub const fn in_steps(range: RangeInclusive<u64>, multiple_of: u64) -> Self {
        Self {
            range,
            multiple_of,
            of: PhantomData,
        }
    }
}

impl<T: TryFrom<u64> + TryInto<u64> + Copy> Kind for Size<T> {
    type Of = T;

    fn read(&self, value: &Value) -> Result<T, String> {
        let rule = || {
            let (min, max) = (show_size(*self.range.start()), show_size(*self.range.end()));
            let steps = match self.multiple_of {
                1 => String::new(),
                bytes => format!(" in multiples of \"{}\"", show_size(bytes)),
            };
            format!("must be a size from \"{min}\" to \"{max}\"{steps}, such as \"64MiB\"")
        };
        let bytes = text(value).and_then(|text| with_unit(text, &UNITS_OF_SIZE));
        bytes
            .filter(|bytes| self.range.contains(bytes) && bytes.is_multiple_of(self.multiple_of))
            .and_then(|bytes| T::try_from(bytes).ok())
            .ok_or_else(rule)
    }

    fn show(&self, of: &T) -> String {
        format!("\"{}\"", show_size((*of).try_into().unwrap_or(u64::MAX)))
    }
}

/// A whole number.
pub struct Count<T>(pub RangeInclusive<T>);

impl<T: FromStr + PartialOrd + Display> Kind for Count<T> {
    type Of = T;

    fn read(&self, value: &Value) -> Result<T, String> {
        let digits = match value {
            Value::Integer(text) | Value::Environment(text) => Some(text.as_str()),
            _ => None,
        };
        digits
            .and_then(|digits| digits.replace('_', "").parse().ok())
            .filter(|count| self.0.contains(count))
            .ok_or_else(|| {
                format!(
                    "must be a whole number from {} to {}",
                    self.0.start(),
                    self.0.end()
                )
            })
    }

    fn show(&self, of: &T) -> String {
        of.to_string()
    }
}

/// `true` or `false`.
pub struct Flag;

impl Kind for Flag {
    type Of = bool;

    fn read(&self, value: &Value) -> Result<bool, String> {
        let value = match value {
            Value::Boolean(value) => Some(*value),
            Value::Environment(text) => text.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| "must be true or false".to_owned())
    }

    fn show(&self, of: &bool) -> String {
        of.to_string()
    }
}

/// Whether a name goes out in upper case: `"upper"` or `"configured"`.
pub struct NameCase;

impl Kind for NameCase {
    type Of = bool;

    fn read(&self, value: &Value) -> Result<bool, String> {
        match text(value) {
            Some("upper") => Ok(true),
            Some("configured") => Ok(false),
            _ => Err("must be \"upper\" or \"configured\"".to_owned()),
        }
    }

    fn show(&self, of: &bool) -> String {
        if *of { "\"upper\"" } else { "\"configured\"" }.to_owned()
    }
}

/// `"default"` or `"strict"`.
pub struct Profiles;

impl Kind for Profiles {
    type Of = Profile;

    fn read(&self, value: &Value) -> Result<Profile, String> {
        let profile = text(value).and_then(Profile::named);
        profile.ok_or_else(|| "must be \"default\" or \"strict\"".to_owned())
    }

    fn show(&self, of: &Profile) -> String {
        format!("\"{}\"", of.as_str())
    }
}

/// `"offset"` or `"delay"`.
pub struct Slots;

impl Kind for Slots {
    type Of = SlotMode;

    fn read(&self, value: &Value) -> Result<SlotMode, String> {
        let mode = text(value).and_then(|text| text.parse().ok());
        mode.ok_or_else(|| "must be \"offset\" or \"delay\"".to_owned())
    }

    fn show(&self, of: &SlotMode) -> String {
        quoted(of.as_str())
    }
}

/// A version of TLS: `"1.2"` or `"1.3"`.
pub struct Version;

impl Kind for Version {
    type Of = TlsVersion;

    fn read(&self, value: &Value) -> Result<TlsVersion, String> {
        match text(value) {
            Some("1.2") => Ok(TlsVersion::V1_2),
            Some("1.3") => Ok(TlsVersion::V1_3),
            _ => Err("must be \"1.2\" or \"1.3\"".to_owned()),
        }
    }

    fn show(&self, of: &TlsVersion) -> String {
        match of {
            TlsVersion::V1_2 => "\"1.2\"".to_owned(),
            TlsVersion::V1_3 => "\"1.3\"".to_owned(),
        }
    }
}

/// `"text"` or `"json"`.
pub struct Format;

impl Kind for Format {
    type Of = LogFormat;

    fn read(&self, value: &Value) -> Result<LogFormat, String> {
        match text(value) {
            Some("text") => Ok(LogFormat::Text),
            Some("json") => Ok(LogFormat::Json),
            _ => Err("must be \"text\" or \"json\"".to_owned()),
        }
    }

    fn show(&self, of: &LogFormat) -> String {
        match of {
            LogFormat::Text => "\"text\"".to_owned(),
            LogFormat::Json => "\"json\"".to_owned(),
        }
    }
}

/// An IP address with a port.
pub struct Address;

impl Kind for Address {
    type Of = SocketAddr;

    fn read(&self, value: &Value) -> Result<SocketAddr, String> {
        let address = text(value).and_then(|text| text.parse().ok());
        address.ok_or_else(|| {
            "must be an IP address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\""
                .to_owned()
        })
    }

    fn show(&self, of: &SocketAddr) -> String {
        format!("\"{of}\"")
    }
}

/// A directory.
pub struct Directory;

impl Kind for Directory {
    type Of = PathBuf;

    fn read(&self, value: &Value) -> Result<PathBuf, String> {
        let path = text(value).filter(|text| !text.is_empty());
        path.map(PathBuf::from)
            .ok_or_else(|| "must be the path of a directory".to_owned())
    }

    fn show(&self, of: &PathBuf) -> String {
        quoted(&of.to_string_lossy())
    }
}

/// The path of a file or directory; empty for the one in the data directory.
pub struct OtherPath;

impl Kind for OtherPath {
    type Of = Option<PathBuf>;

    fn read(&self, value: &Value) -> Result<Option<PathBuf>, String> {
        let path = text(value).ok_or_else(|| "must be a path, or empty".to_owned())?;
        Ok((!path.is_empty()).then(|| PathBuf::from(path)))
    }

    fn show(&self, of: &Option<PathBuf>) -> String {
        let path = of.as_ref().map(|path| path.to_string_lossy());
        quoted(&path.unwrap_or_default())
    }
}

/// Where publishers reach the server; empty for what follows from the address.
pub struct Public;

impl Kind for Public {
    type Of = Option<PublicUrl>;

    fn read(&self, value: &Value) -> Result<Option<PublicUrl>, String> {
        match text(value) {
            Some("") => Ok(None),
            text => text.unwrap_or("-").parse().map(Some).map_err(str::to_owned),
        }
    }

    fn show(&self, of: &Option<PublicUrl>) -> String {
        quoted(of.as_ref().map_or("", PublicUrl::as_str))
    }
}

/// The name of a host; empty for what follows from the public URL.
pub struct HostName;

impl Kind for HostName {
    type Of = String;

    fn read(&self, value: &Value) -> Result<String, String> {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let name = text(value).filter(|text| text.len() <= 253 && text.bytes().all(is_sign));
        name.map(str::to_owned)
            .ok_or_else(|| "must be a host's name, or empty".to_owned())
    }

    fn show(&self, of: &String) -> String {
        quoted(of)
    }
}

/// A text for people, which stands in answers and log lines.
pub struct FreeText;

/// Characters of one.
const FREE_TEXT_LEN_MAX: usize = 64;

impl Kind for FreeText {
    type Of = String;

    fn read(&self, value: &Value) -> Result<String, String> {
        let is_plain = |text: &&str| !text.chars().any(char::is_control);
        let is_short = |text: &&str| text.chars().count() <= FREE_TEXT_LEN_MAX;
        let text = text(value).filter(is_plain).filter(is_short);
        text.map(str::to_owned).ok_or_else(|| {
            format!("must be a text of at most {FREE_TEXT_LEN_MAX} characters in one line")
        })
    }

    fn show(&self, of: &String) -> String {
        quoted(of)
    }
}

/// The names or addresses of hosts, as URLs have them: in lower case, and addresses of version 6 in brackets.
pub struct Hosts;

impl Kind for Hosts {
    type Of = Vec<String>;

    fn read(&self, value: &Value) -> Result<Vec<String>, String> {
        let rule = "must be a list of hosts without port, such as [\"hooks.example.com\", \"127.0.0.1\", \"[::1]\"]";
        let texts = texts(value).ok_or(rule)?;
        let host = |text: &str| host(text).map_err(|problem| format!("{rule}: {problem}"));
        texts.into_iter().map(host).collect()
    }

    fn show(&self, of: &Vec<String>) -> String {
        show_list(of.iter())
    }
}

/// A host as a URL has it, or what is wrong with it.
fn host(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let port = text.rsplit_once(':').filter(|(host, port)| {
        let is_host = !host.is_empty() && (!host.contains(':') || host.ends_with(']'));
        is_host && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let Some((host, _)) = port {
        return Err(format!(
            "\"{text}\" has a port; write \"{host}\", which stands for all of its ports"
        ));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(&text).parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]"));
    }
    let name = text.strip_suffix('.').unwrap_or(&text);
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_sign) {
        return Ok(name.to_owned());
    }
    Err(format!("\"{text}\" is none"))
}

/// Networks in CIDR notation.
pub struct Networks;

impl Kind for Networks {
    type Of = Vec<Network>;

    fn read(&self, value: &Value) -> Result<Vec<Network>, String> {
        let rule = || "must be a list of networks, such as [\"10.20.0.0/16\"]".to_owned();
        let texts = texts(value).ok_or_else(rule)?;
        texts
            .into_iter()
            .map(|text| text.parse::<Network>().map_err(|error| error.to_string()))
            .collect()
    }

    fn show(&self, of: &Vec<Network>) -> String {
        show_list(of.iter())
    }
}

/// A text, wherever it was written.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) | Value::Environment(text) => Some(text),
        _ => None,
    }
}

/// The entries of a list of texts; in the environment they are separated by commas.
fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::List(list) => list.iter().map(text).collect(),
        Value::Environment(list) if list.trim().is_empty() => Some(Vec::new()),
        Value::Environment(list) => Some(list.split(',').map(str::trim).collect()),
        _ => None,
    }
}

/// Digits and a unit, in the smallest unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show_span(span: Duration) -> String {
    show_with_unit(
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        &UNITS_OF_TIME,
        "0s",
    )
}

fn show_size(bytes: u64) -> String {
    show_with_unit(bytes, &UNITS_OF_SIZE, "0B")
}

/// In the largest unit that needs no fraction.
fn show_with_unit(number: u64, units: &[(&str, u64)], zero: &str) -> String {
    let unit = units
        .iter()
        .find(|(_, factor)| number > 0 && number.is_multiple_of(*factor));
    unit.map_or_else(
        || zero.to_owned(),
        |(name, factor)| format!("{}{name}", number / factor),
    )
}

fn show_list(entries: impl Iterator<Item = impl Display>) -> String {
    let entries: Vec<String> = entries.map(|entry| format!("\"{entry}\"")).collect();
    format!("[{}]", entries.join(", "))
}

/// As a TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend([format!("\\u{:04X}", u32::from(c))]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_shown() {
        for (text, millis, shown) in [
            ("250ms", 250, "250ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "90s"),
            ("60s", 60_000, "1m"),
            ("12h", 43_200_000, "12h"),
            ("24h", 86_400_000, "1d"),
            ("0s", 0, "0s"),
        ] {
            assert_eq!(with_unit(text, &UNITS_OF_TIME), Some(millis), "{text}");
            assert_eq!(show_span(Duration::from_millis(millis)), shown);
        }
        assert_eq!(with_unit("64MiB", &UNITS_OF_SIZE), Some(64 << 20));
        assert_eq!(show_size(1_536_000), "1500KiB");
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "30 s",
            "30S",
            "1mib",
            "99999999999999TiB",
        ] {
            assert_eq!(with_unit(text, &UNITS_OF_TIME), None, "{text}");
            assert_eq!(with_unit(text, &UNITS_OF_SIZE), None, "{text}");
        }
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\u000A""#);
    }
}

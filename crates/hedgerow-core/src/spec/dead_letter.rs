//! Where a subscription's dead letters go, and how.

use std::time::Duration;

use serde_json::{Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::dead_letter::DeadLetterSettings;
use crate::limits;

/// Where the events of undelivered deliveries are written (ED-242, ED-243).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterDestination {
    /// A directory of the server's machine, below the one that its operator set aside for dead letters.
    LocalDirectory {
        /// Which one.
        path: ContainerPath,
    },
}

impl DeadLetterDestination {
    /// The container: what stands before a blob's name (ED-249).
    #[must_use]
    pub const fn container(&self) -> &ContainerPath {
        match self {
            Self::LocalDirectory { path } => path,
        }
    }

    pub(super) fn check(mut fields: Fields<'_>) -> Result<Self, SpecError> {
        match fields.text("endpointType")? {
            Some("LocalDirectory") => {}
            Some("StorageBlob") => {
                let message =
                    "\"StorageBlob\" is not supported by this version; use \"LocalDirectory\"";
                return Err(fields.error("endpointType", message));
            }
            Some(_) => {
                let message = "must be \"LocalDirectory\", the only one this version supports";
                return Err(fields.error("endpointType", message));
            }
            None => return Err(fields.error("endpointType", "is required")),
        }
        let Some(mut properties) = fields.object("properties")? else {
            return Err(fields.error("properties", "is required"));
        };
        fields.finish()?;
        let Some(text) = properties.text("path")? else {
            return Err(properties.error("path", "is required"));
        };
        let path =
            ContainerPath::parse(text).map_err(|message| properties.error("path", message))?;
        properties.finish()?;
        Ok(Self::LocalDirectory { path })
    }

    /// As a declaration has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self::LocalDirectory { path } = self;
        json!({ "endpointType": "LocalDirectory", "properties": { "path": path.as_str() } })
    }
}

/// The path of a directory below another one that it cannot leave: names of letters, digits, `-`, `_` and `.`, none of
/// which begins with a dot, with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerPath(String);

impl ContainerPath {
    /// Checks a path.
    ///
    /// # Errors
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > limits::DEAD_LETTER_PATH_BYTES_MAX {
            return Err("must not be longer than 255 bytes");
        }
        if text.starts_with('/') {
            return Err(
                "must be relative: it lies below the directory that the server's setting \
                 dead_letter.directory names",
            );
        }
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && !name.starts_with('.') && bytes.all(is_sign)
        };
        if text.split('/').all(is_name) {
            Ok(Self(text.to_owned()))
        } else {
            Err(
                "must be names of letters, digits, '-', '_' and '.' with '/' between them, none beginning with a dot",
            )
        }
    }

    /// The path as it was declared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(super) fn check_settings(fields: Option<Fields<'_>>) -> Result<DeadLetterSettings, SpecError> {
    let mut settings = DeadLetterSettings::default();
    let Some(mut fields) = fields else {
        return Ok(settings);
    };
    let seconds = |count: u32| Duration::from_secs(count.into());
    if let Some(delay) = fields.integer("delay", &limits::DEAD_LETTER_DELAY_SECONDS)? {
        settings.delay = seconds(delay);
    }
    let range = &limits::DEAD_LETTER_UNAVAILABLE_SECONDS;
    if let Some(max) = fields.integer("maxUnavailable", range)? {
        settings.max_unavailable = seconds(max);
    }
    if let Some(drops) = fields.boolean("dropIfNotFound")? {
        settings.drop_if_not_found = drops;
    }
    if let Some(requires) = fields.boolean("requireReachable")? {
        settings.require_reachable = requires;
    }
    fields.finish()?;
    Ok(settings)
}

impl DeadLetterSettings {
    /// The settings as a declaration has them: times in seconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "delay": self.delay.as_secs(),
            "maxUnavailable": self.max_unavailable.as_secs(),
            "dropIfNotFound": self.drop_if_not_found,
            "requireReachable": self.require_reachable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_the_directory() {
        for path in ["deadletter", "orders/Late_1", "a.b/c-d", "0"] {
            assert_eq!(ContainerPath::parse(path).unwrap().as_str(), path);
        }
        for path in [
            "", "/", "/etc", "..", "a/..", "../a", "a//b", "a/", ".hidden", "a/.b", "a b", "a\\b",
            "c:", "ä", "a\0",
        ] {
            assert!(ContainerPath::parse(path).is_err(), "{path:?}");
        }
        assert!(ContainerPath::parse(&"a".repeat(256)).is_err());
    }
}

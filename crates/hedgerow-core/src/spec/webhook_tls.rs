//! What a webhook asks of TLS beside what holds for all (ED-123, ED-124).

use serde_json::{Map, Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::limits;

/// What a webhook asks of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookTls {
    /// `minimumTlsVersionAllowed`: older versions are not spoken.
    pub version_min: TlsVersion,
    /// `extraCaCertificates`: certificates in PEM that are trusted as roots beside the system's, by this subscription alone.
    /// That they are certificates is not judged here.
    pub extra_ca_certificates: Option<Box<str>>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// 1.2
    #[default]
    V1_2,
    /// 1.3
    V1_3,
}

impl TlsVersion {
    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        }
    }
}

const VERSION: &str = "minimumTlsVersionAllowed";
/// The member with certificates.
pub(super) const CERTIFICATES: &str = "extraCaCertificates";

impl WebhookTls {
    /// Checks the members of a webhook's properties.
    pub(super) fn check(properties: &mut Fields<'_>) -> Result<Self, SpecError> {
        let version_min = match properties.text(VERSION)? {
            None | Some("1.2") => TlsVersion::V1_2,
            Some("1.3") => TlsVersion::V1_3,
            Some("1.0" | "1.1") => {
                let message =
                    "must be \"1.2\" or \"1.3\": nothing is delivered over older versions";
                return Err(properties.error(VERSION, message));
            }
            Some(_) => return Err(properties.error(VERSION, "must be \"1.2\" or \"1.3\"")),
        };
        let certificates = properties.text(CERTIFICATES)?;
        if certificates.is_some_and(|text| text.len() > limits::EXTRA_CA_BYTES_MAX) {
            let message = format!(
                "must not be longer than {} bytes",
                limits::EXTRA_CA_BYTES_MAX
            );
            return Err(properties.error(CERTIFICATES, message));
        }
        Ok(Self {
            version_min,
            extra_ca_certificates: certificates.map(Into::into),
        })
    }

    /// Writes the members.
    pub(super) fn add_to(&self, properties: &mut Map<String, Value>) {
        properties.insert(VERSION.to_owned(), json!(self.version_min.as_str()));
        if let Some(certificates) = &self.extra_ca_certificates {
            properties.insert(CERTIFICATES.to_owned(), json!(certificates));
        }
    }
}

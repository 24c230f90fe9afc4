//! Resource ids: what a subscription can be made on besides a topic's name, and the storage account that tells of dead letters
//! (ED-318).
//!
//! There is one storage account: the directory that the server writes dead letters to. Its containers are those of dead-letter
//! destinations.

use std::fmt;

use crate::name::DEAD_LETTER_TOPIC;

/// The resource id of the storage account that there is.
pub const STORAGE_ACCOUNT: &str = "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.Storage/storageAccounts/hedgerow";
/// Its name.
const ACCOUNT_NAME: &str = "hedgerow";

/// The resource id of the storage account, as somebody wrote it: what events carry as `topic` that come from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageAccount(Box<str>);

impl StorageAccount {
    /// Reads a resource id. Subscription and resource group are whoever's they are.
    ///
    /// # Errors
    ///
    /// What it must be.
    pub fn parse(id: &str) -> Result<Self, String> {
        match Resource::parse(id) {
            Some(Resource::StorageAccount(name)) if name.eq_ignore_ascii_case(ACCOUNT_NAME) => {
                Ok(Self(id.trim_end_matches('/').into()))
            }
            Some(Resource::StorageAccount(_)) => Err(format!(
                "names a storage account that this server does not write to; there is one, \"{STORAGE_ACCOUNT}\""
            )),
            _ => Err(format!(
                "must be the resource id of a storage account, as \"{STORAGE_ACCOUNT}\""
            )),
        }
    }

    /// The resource id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for StorageAccount {
    fn default() -> Self {
        Self(STORAGE_ACCOUNT.into())
    }
}

impl fmt::Display for StorageAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a resource id names.
enum Resource<'a> {
    Topic(&'a str),
    StorageAccount(&'a str),
}

impl<'a> Resource<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.strip_prefix('/')?.trim_end_matches('/').rsplit('/');
        let (name, kind, provider) = (parts.next()?, parts.next()?, parts.next()?);
        parts
            .next()
            .filter(|part| part.eq_ignore_ascii_case("providers"))?;
        let is = |a: &str, b: &str| {
            provider.eq_ignore_ascii_case(a) && kind.eq_ignore_ascii_case(b) && !name.is_empty()
        };
        let is_topic =
            is("Microsoft.EventGrid", "topics") || is("Microsoft.EventGrid", "systemTopics");
        if is_topic {
            return Some(Self::Topic(name));
        }
        is("Microsoft.Storage", "storageAccounts").then_some(Self::StorageAccount(name))
    }
}

/// The name of the topic that a resource id means (ED-318, ED-322): that of a topic or of a system topic, and for the storage
/// account the built-in one. What is no resource id is a name already. `None` for any other resource.
#[must_use]
pub fn topic_meant(id: &str) -> Option<&str> {
    if !id.starts_with('/') {
        return Some(id);
    }
    match Resource::parse(id)? {
        Resource::Topic(name) => Some(name),
        Resource::StorageAccount(name) => name
            .eq_ignore_ascii_case(ACCOUNT_NAME)
            .then_some(DEAD_LETTER_TOPIC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-318, ED-322.
    #[test]
    fn resource_ids_mean_topics() {
        let of = "/subscriptions/1/resourceGroups/rg/providers";
        for (id, meant) in [
            ("orders".to_owned(), Some("orders")),
            (
                format!("{of}/Microsoft.EventGrid/topics/orders"),
                Some("orders"),
            ),
            (
                format!("{of}/microsoft.eventgrid/TOPICS/Orders/"),
                Some("Orders"),
            ),
            (
                format!("{of}/Microsoft.EventGrid/systemTopics/late"),
                Some("late"),
            ),
            (STORAGE_ACCOUNT.to_owned(), Some("$deadletter")),
            (
                format!("{of}/Microsoft.Storage/storageAccounts/HEDGEROW"),
                Some("$deadletter"),
            ),
            (
                format!("{of}/Microsoft.Storage/storageAccounts/other"),
                None,
            ),
            (format!("{of}/Microsoft.EventGrid/domains/orders"), None),
            (format!("{of}/Microsoft.Storage/topics/orders"), None),
            (format!("{of}/Microsoft.EventGrid/topics/"), None),
            ("/topics/orders".to_owned(), None),
        ] {
            assert_eq!(topic_meant(&id), meant, "{id}");
        }
    }

    #[test]
    fn there_is_one_account() {
        let mine = "/subscriptions/1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/Hedgerow/";
        let account = StorageAccount::parse(mine).unwrap();
        assert_eq!(account.as_str(), mine.trim_end_matches('/'));
        assert_eq!(
            StorageAccount::default(),
            StorageAccount::parse(STORAGE_ACCOUNT).unwrap()
        );
        let other = STORAGE_ACCOUNT.replace("/hedgerow/", "/x/") + "x";
        assert!(
            StorageAccount::parse(&other)
                .unwrap_err()
                .contains("does not write to")
        );
        for id in [
            "hedgerow",
            "",
            "/subscriptions/1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/a",
        ] {
            assert!(
                StorageAccount::parse(id)
                    .unwrap_err()
                    .starts_with("must be")
            );
        }
    }
}

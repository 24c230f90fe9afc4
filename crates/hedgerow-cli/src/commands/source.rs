//! What subscriptions are made for, as commands take it: a topic, a domain or a topic of a domain, by name or by resource id.

use std::str::FromStr;

use hedgerow_core::name::{DomainTopicName, NameError, TopicName};
use hedgerow_core::spec::topic_meant;

/// Where events come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTopic {
    /// As answers name it: `orders`, `shop` or `shop/topics/foo`.
    pub name: String,
    /// Its path below that of the admin API.
    pub path: String,
}

impl FromStr for SourceTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = "must be a topic's name, domains/DOMAIN, domains/DOMAIN/topics/TOPIC, or the full resource id of one of \
             them, `/…/providers/Microsoft.EventGrid/topics/NAME`";
        let text = text.trim_end_matches('/');
        let relative = if text.starts_with('/') {
            match below_provider(text) {
                Some(relative) => relative,
                None => topic_meant(text).ok_or(refused)?,
            }
        } else {
            text
        };
        let told = |error: NameError| error.to_string();
        let parts: Vec<&str> = relative.split('/').collect();
        let lower: Vec<String> = parts.iter().map(|part| part.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let (topic, domain_topic, is_domain) = match (&lower[..], &parts[..]) {
            (["topics" | "systemtopics", _], [_, name]) | ([_], [name]) => (*name, None, false),
            (["domains", _], [_, domain]) => (*domain, None, true),
            // The last one is how answers name it.
            (["domains", _, "topics", _], [_, domain, _, name])
            | ([_, "topics", _], [domain, _, name]) => (*domain, Some(*name), true),
            _ => return Err(refused.to_owned()),
        };
        let topic: TopicName = topic.parse().map_err(told)?;
        let kind = if is_domain { "domains" } else { "topics" };
        let Some(name) = domain_topic else {
            return Ok(Self {
                path: format!("/{kind}/{topic}"),
                name: topic.into(),
            });
        };
        let name: DomainTopicName = name.parse().map_err(told)?;
        Ok(Self {
            name: format!("{topic}/topics/{name}"),
            path: format!("/{kind}/{topic}/topics/{name}"),
        })
    }
}

/// What stands in a resource id behind `/subscriptions/…/providers/Microsoft.EventGrid/`.
fn below_provider(id: &str) -> Option<&str> {
    const PROVIDER: &str = "/providers/microsoft.eventgrid/";
    let at = id.to_ascii_lowercase().find(PROVIDER)?;
    id.get(at + PROVIDER.len()..)
        .filter(|rest| rest.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-322.
    #[test]
    fn sources_are_names_or_resource_ids() {
        let provider = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid";
        for (text, name, path) in [
            ("orders", "orders", "/topics/orders"),
            ("topics/orders", "orders", "/topics/orders"),
            ("domains/shop", "shop", "/domains/shop"),
            (
                "domains/shop/topics/Foo",
                "shop/topics/Foo",
                "/domains/shop/topics/Foo",
            ),
            (
                "shop/topics/foo",
                "shop/topics/foo",
                "/domains/shop/topics/foo",
            ),
        ] {
            let mut spellings = vec![text.to_owned()];
            if text.contains("s/") && !text.starts_with("shop") {
                spellings.push(format!("{provider}/{text}"));
                spellings.push(format!("{}/{text}/", provider.to_lowercase()));
            }
            for text in spellings {
                let found: SourceTopic = text.parse().unwrap();
                assert_eq!(
                    (found.name.as_str(), found.path.as_str()),
                    (name, path),
                    "{text}"
                );
            }
        }
        // ED-318.
        for text in ["$deadletter", hedgerow_core::spec::STORAGE_ACCOUNT] {
            let found: SourceTopic = text.parse().unwrap();
            assert_eq!(found.path, "/topics/$deadletter", "{text}");
        }
        let system: SourceTopic = format!("{provider}/systemTopics/late").parse().unwrap();
        assert_eq!(system.path, "/topics/late");
        for text in [
            "",
            "/orders",
            "o!",
            "domains/shop/foo",
            "domains/shop/topics/fo",
            "/a/Microsoft.Storage/storageAccounts/orders",
            "/subscriptions/s/providers/Microsoft.EventGrid/orders",
        ] {
            text.parse::<SourceTopic>().unwrap_err();
        }
    }
}

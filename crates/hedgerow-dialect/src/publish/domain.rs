//! Which domain topic an event names (section 1.11).

use hedgerow_core::event::Event;
use hedgerow_core::name::DomainTopicName;

/// The attribute that names it beside the source (ED-073).
pub(crate) const ATTRIBUTE: &str = "domaintopic";

/// What that attribute of an event says, if it is a text.
pub(crate) fn attribute_of(event: &Event<'_>) -> Option<String> {
    let mut all = event.extensions.iter();
    let (_, json) = all.find(|(name, _)| name == ATTRIBUTE)?;
    serde_json::from_str(json).ok()
}

/// The name of the domain topic that `named` means: it is its bare name, or its full path below `domain` (ED-069, ED-070).
pub(crate) fn topic_named(domain: &str, named: &str) -> Result<Box<str>, &'static str> {
    let name = match named.strip_prefix(domain) {
        Some(rest) => rest.strip_prefix("/topics/"),
        None => Some(named),
    };
    let name = name.filter(|name| name.parse::<DomainTopicName>().is_ok());
    name.map(Box::from)
        .ok_or("must be either a full resource id or just the name of the domain topic")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-069, ED-070, ED-078.
    #[test]
    fn names_and_full_paths_mean_a_domain_topic() {
        let longest = "x".repeat(128);
        for (named, expected) in [
            ("foo", Some("foo")),
            ("/d/topics/foo", Some("foo")),
            ("Foo-1", Some("Foo-1")),
            (&longest, Some(&*longest)),
            (&format!("{longest}x"), None),
            ("fo", None),
            ("", None),
            ("/d/topics/", None),
            ("/d/topics/a/b", None),
            ("/e/topics/foo", None),
            ("/dd/topics/foo", None),
            ("foo bar", None),
            ("https://example.com/", None),
        ] {
            assert_eq!(
                topic_named("/d", named).ok().as_deref(),
                expected,
                "{named}"
            );
        }
    }
}

//! Which domain topic an event names (section 1.11).

use hedgerow_core::limits;

/// The full path of the domain topic that `named` means: its bare name, or its full path (ED-069, ED-070).
pub(crate) fn topic_path(domain: &str, named: &str) -> Result<String, &'static str> {
    let name = match named.strip_prefix(domain) {
        Some(rest) => rest.strip_prefix("/topics/"),
        None => Some(named),
    };
    let is_name = |name: &&str| {
        limits::DOMAIN_TOPIC_NAME_LEN.contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let name = name.filter(is_name);
    name.map(|name| format!("{domain}/topics/{name}"))
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
            ("foo", Some("/d/topics/foo")),
            ("/d/topics/foo", Some("/d/topics/foo")),
            ("Foo-1", Some("/d/topics/Foo-1")),
            (&longest, Some(&*format!("/d/topics/{longest}"))),
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
            assert_eq!(topic_path("/d", named).ok().as_deref(), expected, "{named}");
        }
    }
}

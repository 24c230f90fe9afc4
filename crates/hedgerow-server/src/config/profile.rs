//! The strict profile (ED-317): every setting whose default departs from the vendor's page on delivery and retry, set to what the
//! page says, in one word. What the file or the environment says besides holds in both profiles.

use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::spec::Profile;
use hedgerow_dialect::dead_letter::ExtraMembers;

use super::Config;

/// A setting whose default departs from the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The setting of the server.
    pub setting: &'static str,
    /// The member of a subscription's declaration that it is the default of, if it is one.
    pub member: Option<&'static str>,
    /// What the page says, and what is done otherwise.
    pub about: &'static str,
}

/// Every departure. The reference page has the same list, with the values; a test holds the two together, and both to what the
/// profile sets.
pub const DEPARTURES: &[Departure] = &[
    Departure {
        setting: "dead_letter.drop_if_not_found",
        member: Some("deadLetter.dropIfNotFound"),
        about: "the page drops a dead letter at once whose container does not exist; otherwise it waits, as for a store that is \
                down",
    },
    Departure {
        setting: "dead_letter.require_reachable",
        member: Some("deadLetter.requireReachable"),
        about: "the page wants the container and the permission to write when the subscription is made; otherwise it is made, and \
                what is missing is told",
    },
    Departure {
        setting: "dead_letter.last_http_status",
        member: None,
        about: "the page's record has no `lastHttpStatusCode` (`lasthttpstatuscode` in a CloudEvent)",
    },
    Departure {
        setting: "dead_letter.last_attempt_time",
        member: None,
        about: "the page's CloudEvents record has no `lastdeliveryattempttime`",
    },
    Departure {
        setting: "dead_letter.domain_topic",
        member: None,
        about: "the page's CloudEvents record has no `hedgerowdomaintopic`, and a replay may lose the domain topic that a header named",
    },
];

/// What the dead letters of subscriptions default to in a profile, where they are `base` otherwise.
#[must_use]
pub fn dead_letter_of(profile: Profile, base: DeadLetterSettings) -> DeadLetterSettings {
    let default = DeadLetterSettings::default();
    let is_strict = profile == Profile::Strict;
    DeadLetterSettings {
        drop_if_not_found: is_strict || default.drop_if_not_found,
        require_reachable: is_strict || default.require_reachable,
        ..base
    }
}

/// Sets what a profile sets.
pub fn apply(config: &mut Config, profile: Profile) {
    config.engine.profile = profile;
    config.dead_letter.settings = dead_letter_of(profile, config.dead_letter.settings);
    config.engine.dead_letter_members = ExtraMembers::of(profile);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::settings::SETTINGS;

    const PAGE: &str = include_str!("../../../../docs/reference/departures.md");

    fn strict() -> Config {
        let mut config = Config::default();
        apply(&mut config, Profile::Strict);
        config
    }

    fn shown(config: &Config, key: &str) -> String {
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
        (setting
            .unwrap_or_else(|| panic!("{key} is no setting"))
            .show)(config)
    }

    /// ED-317: the list is what the profile sets, no more and no less.
    #[test]
    fn the_profile_sets_the_departures_and_nothing_else() {
        let (default, strict) = (Config::default(), strict());
        let differs = |key: &&str| shown(&default, key) != shown(&strict, key);
        let keys = SETTINGS
            .iter()
            .map(|setting| setting.key)
            .filter(|key| *key != "profile");
        let set: BTreeSet<_> = keys.filter(differs).collect();
        let listed: BTreeSet<_> = DEPARTURES.iter().map(|one| one.setting).collect();
        assert_eq!(set, listed);
        let mut back = strict;
        apply(&mut back, Profile::Default);
        assert_eq!(back.to_toml(), default.to_toml());
    }

    /// ED-317: the reference has a row for each, with its setting, its default and its strict value.
    #[test]
    fn the_reference_lists_every_departure() {
        let (default, strict) = (Config::default(), strict());
        let rows: Vec<&str> = PAGE
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let expected: Vec<String> = DEPARTURES
            .iter()
            .map(|one| {
                let member = one
                    .member
                    .map_or(String::new(), |member| format!("`{member}`"));
                let (default, strict) = (shown(&default, one.setting), shown(&strict, one.setting));
                format!(
                    "| `{}` | {member} | `{default}` | `{strict}` | {} |",
                    one.setting, one.about
                )
            })
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert_eq!(rows, expected, "write them so");
    }
}

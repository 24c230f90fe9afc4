//! Everything about the engine that can be tuned. Plain values; the defaults are the specification's (ED-004).

use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_core::filter::FilterRules;
use hedgerow_core::hold::ProbationDurations;
use hedgerow_core::limits;
use hedgerow_core::retry::RetrySettings;
use hedgerow_core::spec::{FilterLimits, Profile};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_dialect::dead_letter::ExtraMembers;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Which defaults hold where the vendor's page on delivery and ours differ (ED-317). Whoever sets it sets those.
    pub profile: Profile,
    /// The schedule and what outcomes mean.
    pub retry: RetrySettings,
    /// How endpoints are asked whether they want deliveries.
    pub validation: ValidationSettings,
    /// How long an endpoint has to answer the notice that its subscription was deleted (ED-172).
    pub deletion_notice_timeout: Duration,
    /// Where this server is reached from outside, without a slash at its end: the URLs that complete handshakes are made
    /// from it (ED-160).
    pub public_url: String,
    /// How much a filter may ask for when it is declared.
    pub filter_limits: FilterLimits,
    /// How filters are understood.
    pub filter_rules: FilterRules,
    /// How many of each may be declared (ED-062).
    pub quotas: Quotas,
    /// Attempts at one endpoint at a time.
    pub credits: CreditSettings,
    /// Attempts at a time over all endpoints.
    pub attempts_max: usize,
    /// Successes of one subscription that may wait for their record to be durable: what a crash sends again, beside
    /// the attempts in flight (design D5).
    pub unsettled_successes_max: u64,
    /// Exchanges of one subscription that stay open after their timeout (ED-180).
    pub late_exchanges_per_subscription_max: usize,
    /// The same over all subscriptions.
    pub late_exchanges_max: usize,
    /// How long probation lasts after each outcome (ED-225).
    pub probation: ProbationDurations,
    /// Held deliveries that start in a second at one endpoint after a window (ED-238).
    pub released_per_second: u32,
    /// Deliveries that end in a second without an attempt, over all subscriptions: expired ones, and what is purged
    /// (ED-325).
    pub ended_per_second: u32,
    /// How often the reader's place is written down while events come.
    pub read_interval: Duration,
    /// How often the view is written down while it changes.
    pub checkpoint_interval: Duration,
    /// Memory of changes of the view at which it is written down earlier.
    pub checkpoint_bytes: usize,
    /// How long running attempts may take to end when the server stops.
    pub drain: Duration,
    /// Nothing is attempted before [`crate::command::Command::StartDeliveries`]: whoever starts the server may declare
    /// things anew first. Only after the process started, not after the store was opened again.
    pub starts_held: bool,
    /// Which members dead-letter records have beside those of the vendor's page (ED-254, ED-255, ED-317).
    pub dead_letter_members: ExtraMembers,
    /// Of how many successes in a hundred there is a line in the log at info (ED-310).
    pub success_log_percent: u32,
    /// Whether the name goes out in upper case in `aeg-subscription-name` (ED section 3.3).
    pub subscription_name_upper_case: bool,
    /// What deliveries of `CloudEvents` say in `WebHook-Request-Origin`, the name of the handshake; empty to say nothing.
    pub webhook_origin: String,
}

/// How many of each may be declared. What is there already stays where a quota was lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Topics that are no domains.
    pub topics: usize,
    /// Domains.
    pub domains: usize,
    /// Topics of one domain.
    pub topics_per_domain: usize,
    /// Subscriptions of one topic, or of one domain topic.
    pub subscriptions_per_topic: usize,
    /// Subscriptions of all of one domain.
    pub domain_subscriptions: usize,
}

impl Default for Quotas {
    /// Source: ED-062.
    fn default() -> Self {
        Self {
            topics: 100,
            domains: 100,
            topics_per_domain: 100_000,
            subscriptions_per_topic: 500,
            domain_subscriptions: 50,
        }
    }
}

impl EngineSettings {
    /// The members that dead-letter records of a topic's subscriptions have, which may have a profile of its own.
    #[must_use]
    pub fn dead_letter_members_of(&self, profile: Option<Profile>) -> ExtraMembers {
        match profile {
            Some(profile) if profile != self.profile => ExtraMembers::of(profile),
            _ => self.dead_letter_members,
        }
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            retry: RetrySettings::default(),
            validation: ValidationSettings::default(),
            deletion_notice_timeout: Duration::from_secs(30),
            public_url: "http://localhost:8080".to_owned(),
            filter_limits: FilterLimits::default(),
            filter_rules: FilterRules::default(),
            quotas: Quotas::default(),
            credits: CreditSettings::default(),
            attempts_max: 4096,
            unsettled_successes_max: limits::UNSETTLED_SUCCESSES_MAX as u64,
            late_exchanges_per_subscription_max: limits::LATE_EXCHANGES_PER_SUBSCRIPTION_MAX,
            late_exchanges_max: limits::LATE_EXCHANGES_MAX,
            probation: ProbationDurations::default(),
            released_per_second: 100,
            ended_per_second: 5_000,
            read_interval: Duration::from_secs(1),
            checkpoint_interval: Duration::from_secs(5),
            checkpoint_bytes: 16 * 1024 * 1024,
            drain: Duration::from_secs(25),
            starts_held: false,
            dead_letter_members: ExtraMembers::ALL,
            success_log_percent: 0,
            subscription_name_upper_case: true,
            webhook_origin: String::new(),
        }
    }
}

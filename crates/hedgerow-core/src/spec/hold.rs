//! What a subscription declares about probation and delayed delivery (ED-226, ED-229, ED-241).

use std::time::Duration;

use serde_json::{Value, json};

use super::SpecError;
use super::advanced::Form;
use super::fields::Fields;
use crate::hold::{DelayedDeliverySettings, ProbationDurations, ProbationSettings};
use crate::limits;

/// What a subscription declares about its probation; how long each lasts is a setting of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbationSpec {
    /// `probation.threshold`: attempts in a row with the same outcome that begin it (ED-226).
    pub threshold: u32,
    /// `probation.deadLetterOnClientError` (ED-229).
    pub dead_letter_on_client_error: bool,
}

impl Default for ProbationSpec {
    fn default() -> Self {
        let settings = ProbationSettings::default();
        Self {
            threshold: settings.threshold,
            dead_letter_on_client_error: settings.dead_letter_on_client_error,
        }
    }
}

impl ProbationSpec {
    /// With the durations that the server has.
    #[must_use]
    pub const fn with(self, durations: ProbationDurations) -> ProbationSettings {
        ProbationSettings {
            threshold: self.threshold,
            durations,
            dead_letter_on_client_error: self.dead_letter_on_client_error,
        }
    }

    pub(super) fn check(fields: Option<Fields<'_>>) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        let Some(mut fields) = fields else {
            return Ok(spec);
        };
        if let Some(threshold) = fields.integer("threshold", &limits::PROBATION_THRESHOLD)? {
            spec.threshold = threshold;
        }
        if let Some(ends) = fields.boolean("deadLetterOnClientError")? {
            spec.dead_letter_on_client_error = ends;
        }
        fields.finish()?;
        Ok(spec)
    }

    /// As a declaration has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "threshold": self.threshold,
            "deadLetterOnClientError": self.dead_letter_on_client_error,
        })
    }
}

pub(super) fn check_delayed_delivery(
    fields: Option<Fields<'_>>,
    form: Form,
) -> Result<DelayedDeliverySettings, SpecError> {
    let mut settings = DelayedDeliverySettings::default();
    let Some(mut fields) = fields else {
        return Ok(settings);
    };
    if let Some(enabled) = fields.boolean("enabled")? {
        settings.enabled = enabled;
    }
    if let Some(events) = fields.integer("events", &limits::DELAYED_DELIVERY_EVENTS)? {
        settings.events = events;
    }
    let range = &limits::DELAYED_DELIVERY_WINDOW_SECONDS;
    let seconds = |count: u32| Duration::from_secs(count.into());
    if let Some(first) = fields.integer("firstWindow", range)? {
        settings.first_window = seconds(first);
    }
    if let Some(max) = fields.integer("maxWindow", range)? {
        settings.max_window = seconds(max);
    }
    // Earlier versions took it; what they stored means windows of the length of the longest.
    if settings.first_window > settings.max_window && form == Form::Declared {
        let message = format!(
            "must not be longer than maxWindow, {} here",
            settings.max_window.as_secs()
        );
        return Err(fields.error("firstWindow", message));
    }
    fields.finish()?;
    Ok(settings)
}

impl DelayedDeliverySettings {
    /// As a declaration has it: times in seconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "enabled": self.enabled,
            "events": self.events,
            "firstWindow": self.first_window.as_secs(),
            "maxWindow": self.max_window.as_secs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SubscriptionSpec;

    /// ED-241: the first window is no longer than the longest; what an earlier version stored is read all the same.
    #[test]
    fn the_first_window_is_not_longer_than_the_longest() {
        let of = |first: Option<u32>, max: u32| {
            let url = "https://example.com/";
            let windows = json!({"firstWindow": first, "maxWindow": max});
            json!({
                "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}},
                "delayedDelivery": windows,
            })
        };
        for (first, max) in [(Some(60), 59), (None, 59), (Some(18_000), 14_400)] {
            let error = SubscriptionSpec::check(&of(first, max)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "delayedDelivery.firstWindow: must not be longer than maxWindow, {max} here"
                )
            );
            assert!(SubscriptionSpec::try_from(of(first, max)).is_ok());
        }
        assert!(SubscriptionSpec::check(&of(Some(60), 60)).is_ok());
    }
}

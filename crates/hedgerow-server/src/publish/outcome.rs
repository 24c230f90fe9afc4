//! What a publish request came to, for metrics and logs (ED-297, ED-305, ED-306).

use std::borrow::Cow;
use std::time::Duration;

use hedgerow_dialect::event_grid::topic_path;

use super::handler::lower_case;
use crate::error::Refusal;
use crate::state::App;

/// Takes note of a request that was accepted, with so many events.
pub fn accepted(app: &App, topic: &str, events: u32, took: Duration, request_id: &str) {
    tracing::debug!(topic, request_id, events, "published");
    if let Some(found) = named(app, topic) {
        found.metrics.accepted(events, took);
    }
}

/// Takes note of a refusal: counts it, as `events` events if they were read and as one if not, and logs it under the id by
/// which it can be found (ED-067).
pub fn refused(app: &App, topic: &str, refusal: &Refusal, events: u32, request_id: &str) {
    let status = refusal.status().as_u16();
    let error_type = if status >= 500 { "Http5xx" } else { "Http4xx" };
    let (reason, events) = ((error_type, refusal.code()), u64::from(events.max(1)));
    let found = named(app, topic);
    match &found {
        Some(found) => found.metrics.publish_failed.add(reason, events),
        None => app.metrics.nowhere.add(reason, events),
    }
    // What nobody declared is whatever a client wrote.
    let topic = found
        .as_ref()
        .map_or(Cow::Borrowed(""), |found| Cow::Borrowed(&*found.name));
    tracing::info!(
        category = "PublishFailures",
        operationName = "Microsoft.EventGrid/events/send",
        resourceId = topic_path(&topic),
        topic = &*topic,
        request_id,
        status,
        error = refusal.code(),
        events,
        "publish request refused: {}",
        refusal.message()
    );
}

fn named(
    app: &App,
    topic: &str,
) -> Option<std::sync::Arc<hedgerow_delivery::command::PublishTopic>> {
    let engine = app.engine().ok()?;
    engine.topics().get(&*lower_case(topic)).cloned()
}

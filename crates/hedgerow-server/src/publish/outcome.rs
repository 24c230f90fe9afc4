//! What a publish request came to, for metrics and logs (ED-297, ED-305, ED-306).

use std::time::Duration;

use hedgerow_dialect::event_grid::topic_path;

use super::handler::Known;
use crate::error::Refusal;
use crate::state::App;

/// Takes note of a request that was accepted.
pub fn accepted(known: &Known, took: Duration, request_id: &str) {
    if let Some(topic) = &known.topic {
        tracing::debug!(topic = topic.name, request_id, known.events, "published");
        topic.metrics.accepted(known.events, took);
    }
}

/// Takes note of a refusal: counts it, as many events as it has if it could be read and as one if not (ED-299), and logs it
/// under the id by which it can be found (ED-067). What nobody declared is no topic's.
pub fn refused(app: &App, known: &Known, refusal: &Refusal, request_id: &str) {
    let status = refusal.status().as_u16();
    let error_type = if status >= 500 { "Http5xx" } else { "Http4xx" };
    let events = (known.events as usize).max(refusal.events()).max(1) as u64;
    let reason = (error_type, refusal.code());
    let (failed, topic, resource_id) = match &known.topic {
        Some(topic) => (
            &topic.metrics.publish_failed,
            &*topic.name,
            topic.path.clone(),
        ),
        None => (&app.metrics.nowhere, "", topic_path("")),
    };
    failed.add(reason, events);
    tracing::info!(
        category = "PublishFailures",
        operationName = "Microsoft.EventGrid/events/send",
        resourceId = resource_id,
        topic,
        request_id,
        status,
        error = refusal.code(),
        events,
        "publish request refused: {}",
        refusal.message()
    );
}

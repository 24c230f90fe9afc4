//! What would keep a declaration from being made, before anything is: for several that are made together or not at all.

use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec};

use super::Engine;
use crate::command::CommandError;

impl Engine {
    /// Judges a subscription as its declaration would, of a topic that is there or that is declared before it, as
    /// `new_topic`.
    pub(super) fn check_subscription(
        &self,
        topic: &str,
        new_topic: Option<&TopicSpec>,
        name: &SubscriptionName,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        self.judge_endpoint(spec)?;
        let catalog = self.view.catalog();
        let present = catalog.topic_named(topic);
        let topic_spec = present.map(|topic| &topic.spec).or(new_topic);
        let Some(topic_spec) = topic_spec else {
            return Err(CommandError::NotFound {
                what: "topic",
                name: topic.to_owned(),
            });
        };
        let existing =
            present.and_then(|topic| catalog.subscription_named(topic.id, name.as_str()));
        let existing = existing.map(|existing| existing.spec.event_delivery_schema);
        spec.event_delivery_schema
            .check_for(topic_spec.input_schema, existing)
            .map_err(CommandError::Invalid)
    }
}

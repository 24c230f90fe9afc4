//! Declarations under way while the server is killed: what was answered must hold afterwards, and what was not may.
//!
//! Each life declares one more subscription that wants nothing and deletes an older one.

use std::collections::BTreeMap;

use serde_json::json;

use super::api::Api;
use super::plan::{SUBSCRIPTIONS, TOPICS};

/// Subscriptions that stay declared before they are deleted.
const KEPT: usize = 3;
/// The topic that they belong to.
const TOPIC: &str = TOPICS[1];

/// What is known of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is there.
    Declared,
    /// It is not there.
    Deleted,
    /// Its declaration or deletion was not answered.
    Nothing,
}

/// The declared subscriptions.
#[derive(Debug, Default)]
pub struct Declarations {
    known: BTreeMap<usize, Known>,
}

impl Declarations {
    /// Declares one more and deletes an older one. The server may die meanwhile.
    pub async fn change(&mut self, api: &mut Api, endpoint: &str) {
        let number = self.known.len();
        self.known.insert(number, Known::Nothing);
        let declaration = json!({
            "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": endpoint } },
            "filter": { "includedEventTypes": ["Shop.Item.Never"] },
        });
        if api
            .put_subscription(TOPIC, &name(number), declaration)
            .await
            .is_err()
        {
            return;
        }
        self.known.insert(number, Known::Declared);
        let Some(old) = number.checked_sub(KEPT) else {
            return;
        };
        if self.known.get(&old) == Some(&Known::Declared) {
            self.known.insert(old, Known::Nothing);
            if api.delete_subscription(TOPIC, &name(old)).await.is_ok() {
                self.known.insert(old, Known::Deleted);
            }
        }
    }

    /// How many were answered.
    pub fn answered(&self) -> usize {
        self.known
            .values()
            .filter(|known| **known != Known::Nothing)
            .count()
    }

    /// What the server says otherwise.
    pub async fn check(&self, api: &mut Api) -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        let there = api.subscriptions(TOPIC).await?;
        for (number, known) in &self.known {
            let name = name(*number);
            let is_there = there.contains(&name);
            let is_true = match known {
                Known::Declared => is_there,
                Known::Deleted => !is_there,
                Known::Nothing => true,
            };
            if !is_true {
                problems.push(format!("subscription {name} was {known:?}, and is not"));
            }
        }
        for subscription in SUBSCRIPTIONS
            .iter()
            .filter(|one| TOPICS[one.topic] == TOPIC)
        {
            if !there.iter().any(|name| name == subscription.name) {
                problems.push(format!("subscription {} is gone", subscription.name));
            }
        }
        Ok(problems)
    }
}

fn name(number: usize) -> String {
    format!("spare-{number}")
}

//! What receivers answer when they are asked whether they want deliveries (ED-154, ED-166), and people who open the URL that they
//! were sent instead.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_core::validation::AllowedRate;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::validation::{Callback, Called};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{Act, Asked, Meeting, Receiver};
use crate::world::World;

/// What a handshake says.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// What is to be answered; `None` if it asks by `OPTIONS`.
    code: Option<String>,
    /// The secret of the URL that completes it.
    token: String,
    sent: Timestamp,
}

impl Question {
    pub(super) fn of(callback: Option<String>, body: &[u8], now: Timestamp) -> Self {
        let event: Value = serde_json::from_slice(body).unwrap_or_default();
        let data = &event[0]["data"];
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        let url = callback
            .or_else(|| text("validationUrl"))
            .unwrap_or_default();
        let token = url.rsplit('/').next().unwrap_or_default();
        Self {
            code: text("validationCode"),
            token: token.to_owned(),
            sent: now,
        }
    }
}

/// What it is answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Greeting {
    Welcome,
    /// Nothing is said, and somebody opens the URL after a while.
    ByHand(Duration),
    GoAway,
}

impl Receiver {
    /// Whoever would answer well says what it thinks of deliveries.
    pub(super) fn greeting(&mut self, asked: &Asked, meeting: Meeting) -> Meeting {
        let is_well = matches!(
            meeting.act,
            Act::Answer {
                status: 200..=204,
                retry_after: None,
                has_endless_body: false,
            }
        );
        if !is_well || asked.question.is_none() {
            return meeting;
        }
        let dice = &mut self.dice;
        let greeting = match dice.between(0..=9) {
            _ if self.world.is_calm() => Greeting::Welcome,
            0 => Greeting::GoAway,
            1 | 2 => Greeting::ByHand(Duration::from_secs(dice.pick(&[1, 60, 299, 301, 900]))),
            _ => Greeting::Welcome,
        };
        Meeting {
            act: Act::Greet(greeting),
            ..meeting
        }
    }

    pub(super) async fn greet(&mut self, asked: &Asked, greeting: Greeting) -> bool {
        let Some(question) = asked.question.clone() else {
            return false;
        };
        let name = &asked.subscription;
        self.world
            .note(format_args!("{} says {greeting:?} to {name}", self.host));
        let (status, header, body) = match (greeting, &question.code) {
            (Greeting::Welcome, Some(code)) => {
                (200, "", json!({ "validationResponse": code }).to_string())
            }
            (Greeting::Welcome, None) => (
                200,
                "webhook-allowed-origin: events.example\r\n",
                String::new(),
            ),
            (Greeting::ByHand(_), _) => (200, "", String::new()),
            (Greeting::GoAway, _) => (400, "", String::new()),
        };
        match greeting {
            Greeting::Welcome => self.world.oracle().consented(name, &self.host),
            Greeting::ByHand(after) => {
                let (name, host) = (name.clone(), self.host.clone());
                let opening = open(Arc::clone(&self.world), question, after, name, host);
                tokio::spawn(opening);
            }
            Greeting::GoAway => {}
        }
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} Simulated\r\n{header}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(answer.as_bytes()).await.is_ok()
    }
}

/// Somebody opens the URL of a handshake.
async fn open(world: Arc<World>, question: Question, after: Duration, name: String, host: String) {
    tokio::time::sleep(after).await;
    let Some(front) = world.front() else {
        return;
    };
    let now = world.now();
    let callback = Callback {
        token: question.token,
        is_post: false,
        rate: AllowedRate::Unlimited,
    };
    // From then on it may deliver, whether anybody is told or not.
    let is_in_time = now.since(question.sent) < Duration::from_secs(300);
    if is_in_time {
        world.oracle().consented(&name, &host);
    }
    let called = front
        .handle
        .ask(|answer| Command::CallBack { callback, answer });
    let called = called.await.ok();
    let is_completed = matches!(called, Some(Called::Completed { .. }));
    world.note(format_args!(
        "the URL of {name} at {host} is opened: {is_completed}"
    ));
    if is_completed {
        world.oracle().opened(now, question.sent, &name, &host);
    }
}

//! A node on a clock of the test's own, whose probes end at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_origin::node::{Due, Node};
use hedgerow_origin::outcome::{Met, Observation, Reason, Response};
use hedgerow_origin::settings::Group;
use hedgerow_origin::window::State;
use serde_json::{Value, json};

pub const REFUSED: Met = Met::Failure(Reason::ConnectRefused);
pub const GOOD: Met = Met::Response(Response::complete(200));

pub fn group(declared: &Value) -> Arc<Group> {
    Arc::new(Group::read(declared).unwrap())
}

/// A group with these hosts, each an origin of its name.
pub fn of(hosts: &[&str], settings: Value) -> Arc<Group> {
    let origins: Vec<Value> = hosts
        .iter()
        .map(|host| json!({"name": host, "host": format!("{host}.example")}))
        .collect();
    let mut declared = settings;
    declared["origins"] = json!(origins);
    group(&declared)
}

/// A node whose probes end at once.
pub struct World {
    pub node: Node,
    pub now: Duration,
    /// Hosts whose probes fail.
    pub down: Vec<&'static str>,
    /// When probes were sent, by URL.
    pub sent: BTreeMap<String, Vec<Duration>>,
    /// Groups that are used all the time.
    pub used: Vec<&'static str>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            node: Node::new(seed, 500),
            now: Duration::from_secs(1_000_000),
            down: Vec::new(),
            sent: BTreeMap::new(),
            used: Vec::new(),
        }
    }

    pub fn set(&mut self, name: &str, group: &Arc<Group>) {
        self.node.set(name, Arc::clone(group), self.now);
    }

    pub fn answer(&self, due: &Due) -> Observation {
        let is_down = self
            .down
            .iter()
            .any(|host| due.target.host.starts_with(host));
        if is_down {
            return Observation::failure(self.now, Duration::ZERO, Reason::ConnectRefused);
        }
        let elapsed = Duration::from_millis(5);
        Observation::response(self.now, elapsed, Response::complete(200))
    }

    /// Sends what is due now.
    pub fn send(&mut self) {
        while let Some(due) = self.node.poll(self.now) {
            self.sent
                .entry(due.target.url())
                .or_default()
                .push(self.now);
            let observation = self.answer(&due);
            self.node.finished(due.stream, observation, self.now);
        }
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            for name in &self.used {
                self.node.used(name, self.now);
            }
            self.send();
            let next = self.node.wake_at().filter(|next| *next <= end);
            let Some(next) = next else { break };
            assert!(next > self.now, "what is due is done");
            self.now = next;
        }
        self.now = end;
    }

    pub fn run_s(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// How many probes went to a URL; then forgets them all.
    pub fn counted(&mut self, url: &str) -> usize {
        let count = self.sent.get(url).map_or(0, Vec::len);
        self.sent.clear();
        count
    }

    pub fn state(&self, group: &str, place: usize) -> State {
        self.node.snapshot(group).unwrap().origins()[place].state
    }
}

pub const A: &str = "http://a.example:80/";
pub const B: &str = "http://b.example:80/";

//! What is printed once everything runs: lines to paste into bash, each correct as it stands.

use std::num::NonZeroU32;
use std::path::Path;

use hedgerow_server::TopicEntry;

use super::demo::{DEMO, DEMO_FAILS, Declared, FAILING_TYPE};
use super::receiver::Receiver;

/// The time that stands in the events. Nothing is decided by it: it is the publisher's.
const EVENT_TIME: &str = "2030-01-02T03:04:05Z";

/// What the lines are made from.
pub struct Greeting<'a> {
    pub server: &'a str,
    pub public_url: &'a str,
    pub data: &'a Path,
    pub end_of_data: &'a str,
    pub dead_letters: &'a Path,
    pub speed: NonZeroU32,
    pub receiver: &'a Receiver,
    pub declared: &'a Declared,
}

impl Greeting<'_> {
    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        let directory = self.data.display();
        let mut lines = vec![format!(
            "hedgerow dev  {}  data in {directory}, which {}",
            self.public_url, self.end_of_data
        )];
        if self.speed > NonZeroU32::MIN {
            lines.push(format!(
                "time passes {} times as fast as the clocks, for retries, windows and times to live",
                self.speed
            ));
        }
        lines.extend([
            String::new(),
            "publish an event:".to_owned(),
            publish(&self.declared.topic, None, &event("1", "Order.Placed")),
            "publish a CloudEvent:".to_owned(),
            publish(
                &self.declared.cloud_events,
                Some("Content-Type: application/cloudevents+json"),
                CLOUD_EVENT,
            ),
            "publish an event that will fail, be retried, put its subscription on probation and end as a dead letter:".to_owned(),
            publish(&self.declared.topic, None, &event("fails-1", FAILING_TYPE)),
            "see what the receiver got, and switch what it answers".to_owned()
                + &format!(" (now {}):", self.receiver.answer()),
            format!("  curl {}/received", self.receiver.url()),
            format!(
                "  curl -X PUT {}/answer -d '{{\"status\":503}}'",
                self.receiver.url()
            ),
            "ask the server:".to_owned(),
        ]);
        lines.extend(self.questions());
        lines.push(String::new());
        lines
    }

    fn questions(&self) -> [String; 3] {
        let program = program();
        let token = quoted(&self.data.join("admin-token").display().to_string());
        let server = format!("--server {} --token-file {token}", self.server);
        [
            format!("  {program} explain fails-1 {server}"),
            format!(
                "  {program} event-subscription show --name {DEMO} --source-resource-id {DEMO} {server}"
            ),
            format!(
                "  ls -R {}",
                quoted(&self.dead_letters.join(DEMO_FAILS).display().to_string())
            ),
        ]
    }
}

/// A line that publishes an event.
fn publish(topic: &TopicEntry, header: Option<&str>, event: &str) -> String {
    let key = format!("aeg-sas-key: {}", topic.keys.key1);
    let headers: Vec<_> = std::iter::once(key.as_str())
        .chain(header)
        .map(|header| format!("-H {}", quoted(header)))
        .collect();
    let (headers, event) = (headers.join(" "), quoted(event));
    format!("  curl -i {} {headers} -d {event}", topic.endpoint)
}

const CLOUD_EVENT: &str = r#"{"specversion":"1.0","id":"ce-1","type":"Order.Placed","source":"/shop","subject":"orders/1","data":{"total":30}}"#;

fn event(id: &str, event_type: &str) -> String {
    format!(
        r#"[{{"id":"{id}","eventType":"{event_type}","subject":"orders/1","eventTime":"{EVENT_TIME}","data":{{"total":30}},"dataVersion":"1"}}]"#
    )
}

/// A word for a POSIX shell that stands for exactly this text.
fn quoted(text: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:".contains(sign);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// How this program is called from any directory.
fn program() -> String {
    let Ok(path) = std::env::current_exe() else {
        return "hedgerow".to_owned();
    };
    let is_found = std::env::var_os("PATH").is_some_and(|folders| {
        let mut found = std::env::split_paths(&folders).map(|folder| folder.join("hedgerow"));
        found.find(|file| file.is_file()).is_some_and(|file| {
            let same = |file: &Path| file.canonicalize().ok();
            same(&file) == same(&path)
        })
    });
    if is_found {
        return "hedgerow".to_owned();
    }
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_their_text() {
        let rows = [
            ("/tmp/data", "/tmp/data"),
            ("", "''"),
            ("my data", "'my data'"),
            ("it's", r"'it'\''s'"),
            ("$HOME!", "'$HOME!'"),
        ];
        for (text, word) in rows {
            assert_eq!(quoted(text), word);
        }
    }
}

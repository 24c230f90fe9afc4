//! The network, and the receivers on it: HTTP/1.1 over pipes in memory, with everything that goes wrong on real ones.

mod greeting;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_io::http::{Connect, ConnectError, Connecting, Connection, Target};
use ring::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use self::greeting::{Greeting, Question};
use crate::dice::{Dice, number_of};
use crate::letters::ids_in;
use crate::oracle::{Arrival, Place, Reply};
use crate::plan::{Mood, SIGNING_SECRET, SUBJECT_HEADER, mood};
use crate::process::Process;
use crate::world::World;

/// How much either side can write before the other reads, in bytes.
const PIPE_BYTES: usize = 64 << 10;
/// The longest head and body that a receiver takes.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The network as one process sees it.
pub struct Network {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

impl Connect for Network {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let host = target.host().to_string();
            let number = self.world.next_connection(&host);
            let dice = &mut Dice::of(&[self.world.plan.seed, 20, number_of(&host), number]);
            let refused = || io::Error::other("simulated");
            if !self.process.step() {
                return Err(ConnectError::Connect(refused()));
            }
            let mood = actual(self.world.mood(&host), dice);
            let latency = if self.world.is_calm() {
                dice.millis(0..=20)
            } else {
                dice.millis(0..=dice.clone().pick(&[0, 20, 300, 3_000]))
            };
            tokio::time::sleep(latency).await;
            match mood {
                Mood::Refuses => return Err(ConnectError::Connect(refused())),
                Mood::Nameless => return Err(ConnectError::Resolution(refused())),
                Mood::Untrusted => return Err(ConnectError::Tls(Box::new(refused()))),
                Mood::Unreachable => std::future::pending().await,
                _ => {}
            }
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let receiver = Receiver {
                world: Arc::clone(&self.world),
                host,
                stream: theirs,
                dice: dice.clone(),
            };
            tokio::spawn(receiver.serve());
            Ok(Connection::new(ours))
        })
    }
}

/// What this mood is in this case.
fn actual(of: Mood, dice: &mut Dice) -> Mood {
    match of {
        Mood::Any => {
            if dice.percent(40) {
                return Mood::Well;
            }
            match mood(dice) {
                Mood::Any => Mood::Well,
                other => other,
            }
        }
        other => other,
    }
}

/// Whether a receiver with the secret takes it. Source: Standard Webhooks 1.0, "Signature scheme".
fn is_signed(id: &str, time: &str, body: &[u8], signatures: &str) -> bool {
    let secret = SIGNING_SECRET.trim_start_matches("whsec_");
    let secret = STANDARD.decode(secret).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let signed = [format!("{id}.{time}.").as_bytes(), body].concat();
    signatures.split(' ').any(|signature| {
        let signature = STANDARD.decode(signature.trim_start_matches("v1,"));
        signature.is_ok_and(|signature| hmac::verify(&key, &signed, &signature).is_ok())
    })
}

/// The other end of one connection.
struct Receiver {
    world: Arc<World>,
    host: String,
    stream: DuplexStream,
    dice: Dice,
}

/// A request as it came.
struct Asked {
    /// Whose it is.
    subscription: String,
    count: Option<u16>,
    kind: Kind,
    question: Option<Question>,
    /// The dead letter that it is delivered again of.
    letter: Option<String>,
    ids: Vec<String>,
    is_array: bool,
    /// Bytes of the body.
    bytes: usize,
    /// The header of its subscription's own.
    subject: Option<String>,
    /// Whether it is signed rightly; `None` if it is not signed.
    is_signed: Option<bool>,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Delivery,
    /// Its subscription is gone.
    Notice,
    /// Whether it wants deliveries: an event that says so, or `OPTIONS`.
    Handshake,
}

/// What a receiver does with a request.
struct Meeting {
    after: Duration,
    act: Act,
}

enum Act {
    Answer {
        status: u16,
        retry_after: Option<u64>,
        has_endless_body: bool,
    },
    /// Answers with this status, and says in JSON which events failed, by their places.
    Entries {
        status: u16,
        body: String,
        failed: Vec<usize>,
    },
    /// Answers a handshake.
    Greet(Greeting),
    /// Says this, and closes.
    Say(&'static [u8]),
    Silence,
}

impl Receiver {
    async fn serve(mut self) {
        while let Some(asked) = self.read().await {
            let place = self.arrived(&asked);
            let mut meeting = self.meeting(&asked);
            if asked.kind == Kind::Handshake {
                meeting = self.greeting(&asked, meeting);
            }
            if self.world.oracle().reads_entries(place) {
                meeting = self.with_entries(&asked, meeting);
            }
            if self.wait(meeting.after).await {
                self.world.oracle().gave_up(place);
                return;
            }
            if !self.act(&asked, place, meeting.act).await {
                return;
            }
        }
    }

    /// The next request; `None` when there is none.
    async fn read(&mut self) -> Option<Asked> {
        let mut bytes = Vec::new();
        let head_len = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more(&mut bytes).await?;
        };
        let head = String::from_utf8_lossy(&bytes[..head_len]).into_owned();
        let header = |wanted: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.next().map(|(_, value)| value.trim().to_owned())
        };
        let body_len = header("content-length").map_or(Ok(0), |len| len.parse());
        let body_len: usize = body_len.ok()?;
        while bytes.len() < head_len + body_len {
            self.more(&mut bytes).await?;
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let subscription = path.split_once("code=").map_or("", |(_, name)| name);
        let kind = match header("aeg-event-type").as_deref() {
            Some("SubscriptionDeletion") => Kind::Notice,
            Some("SubscriptionValidation") => Kind::Handshake,
            _ if head.starts_with("OPTIONS ") => Kind::Handshake,
            _ => Kind::Delivery,
        };
        let ids = match kind {
            Kind::Delivery => ids_in(&bytes[head_len..head_len + body_len]),
            // Drawn, and not from the seed.
            Kind::Notice | Kind::Handshake => Vec::new(),
        };
        let question = (kind == Kind::Handshake).then(|| {
            let body = &bytes[head_len..head_len + body_len];
            Question::of(header("webhook-request-callback"), body, self.world.now())
        });
        Some(Asked {
            subscription: subscription.to_owned(),
            count: header("aeg-delivery-count").and_then(|count| count.parse().ok()),
            kind,
            question,
            letter: header("hedgerow-replay-of"),
            ids,
            is_array: bytes[head_len..].first() == Some(&b'['),
            bytes: body_len,
            subject: header(SUBJECT_HEADER),
            is_signed: header("webhook-signature").map(|signatures| {
                let [id, time] = ["webhook-id", "webhook-timestamp"].map(&header);
                let (id, time) = (id.unwrap_or_default(), time.unwrap_or_default());
                is_signed(
                    &id,
                    &time,
                    &bytes[head_len..head_len + body_len],
                    &signatures,
                )
            }),
        })
    }

    async fn more(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let read = self.stream.read_buf(bytes).await.ok()?;
        (read > 0 && bytes.len() < REQUEST_BYTES_MAX).then_some(())
    }

    fn arrived(&self, asked: &Asked) -> Option<Place> {
        if asked.kind == Kind::Notice {
            let name = &asked.subscription;
            self.world
                .note(format_args!("{} is told that {name} is gone", self.host));
            self.world.oracle().noticed(name, &self.host);
            return None;
        }
        if asked.kind == Kind::Handshake {
            let name = &asked.subscription;
            self.world.note(format_args!(
                "{} is asked whether {name} may come",
                self.host
            ));
            self.world.oracle().asked_for_consent(name, &self.host);
            return None;
        }
        let Asked {
            subscription,
            count,
            ids,
            ..
        } = asked;
        self.world.note(format_args!(
            "{} gets {ids:?} for {subscription} after {count:?} attempts",
            self.host
        ));
        let now = self.world.now();
        let arrival = Arrival {
            subscription,
            host: &self.host,
            ids,
            count: *count,
            letter: asked.letter.as_deref(),
            is_array: asked.is_array,
            bytes: asked.bytes,
            subject: asked.subject.as_deref(),
            is_signed: asked.is_signed,
        };
        self.world.oracle().arrived(now, &arrival)
    }

    fn meeting(&mut self, asked: &Asked) -> Meeting {
        let numbers = [
            self.world.plan.seed,
            21,
            number_of(&asked.subscription),
            number_of(&format!("{:?}", asked.ids)),
            asked.count.unwrap_or_default().into(),
            self.dice.draw(),
        ];
        let dice = &mut Dice::of(&numbers);
        let timeout = self.timeout_of(&asked.subscription);
        let quick = if self.world.is_calm() {
            dice.millis(0..=50)
        } else {
            dice.millis(0..=dice.clone().pick(&[0, 50, 900, 1_100]))
        };
        let answer = |status| Act::Answer {
            status,
            retry_after: None,
            has_endless_body: false,
        };
        let well = self.well(asked, dice);
        let (after, act) = match actual(self.world.mood(&self.host), dice) {
            Mood::Status(status, percent) if dice.percent(percent) => (quick, answer(status)),
            Mood::Later(status, seconds) => (
                quick,
                Act::Answer {
                    status,
                    retry_after: Some(seconds),
                    has_endless_body: false,
                },
            ),
            Mood::Silent => (Duration::ZERO, Act::Silence),
            Mood::Slow(seconds) => (dice.seconds(0..=seconds), answer(well)),
            Mood::Edge => {
                let edge = dice.pick(&[timeout, timeout, Duration::from_secs(180)]);
                let edge = edge.saturating_sub(Duration::from_millis(3));
                let status = dice.pick(&[well, well, 500]);
                (edge + dice.millis(0..=6), answer(status))
            }
            Mood::Resets => {
                let said = dice.pick(&[&b""[..], b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\ncontent-le"]);
                (quick, Act::Say(said))
            }
            Mood::Babbles => (quick, Act::Say(b"SSH-2.0-nothing for you\r\n\r\n")),
            Mood::SlowBody => (
                quick,
                Act::Answer {
                    status: dice.pick(&[well, 500]),
                    retry_after: None,
                    has_endless_body: true,
                },
            ),
            _ => (quick, answer(well)),
        };
        Meeting { after, act }
    }

    /// What it answers when it is well: nothing but what the events themselves make it say.
    fn well(&self, asked: &Asked, dice: &Dice) -> u16 {
        let plans = &self.world.plan.endpoints;
        let plan = plans.iter().find(|plan| plan.host == self.host);
        if let Some(plan) = plan.filter(|_| !self.world.is_calm()) {
            let events_max = plan.events_max.unwrap_or(usize::MAX);
            let seed = self.world.plan.seed;
            let is_poison = |id: &String| {
                Dice::of(&[seed, 22, number_of(&self.host), number_of(id)]).percent(plan.poisoned)
            };
            if asked.ids.len() > events_max {
                return 413;
            }
            if asked.ids.iter().any(is_poison) {
                return 400;
            }
        }
        dice.clone().pick(&[200, 200, 201, 202, 203, 204])
    }

    /// Some answers to a batch say which of its events failed.
    fn with_entries(&mut self, asked: &Asked, meeting: Meeting) -> Meeting {
        let Act::Answer {
            status: status @ (200..=203),
            retry_after: None,
            has_endless_body: false,
        } = meeting.act
        else {
            return meeting;
        };
        let dice = &mut self.dice;
        if self.world.is_calm() || !dice.percent(40) {
            return meeting;
        }
        let all: Vec<usize> = (0..asked.ids.len()).collect();
        let (body, failed) = match dice.between(0..=9) {
            0 => ("{".to_owned(), all),
            1 => (
                r#"{"batchItemFailures": [{"itemIdentifier": "unknown"}]}"#.to_owned(),
                all,
            ),
            2 => (r#"{"batchItemFailures": []}"#.to_owned(), Vec::new()),
            _ => {
                let share = dice.pick(&[10, 50, 100]);
                let failed: Vec<usize> = all.into_iter().filter(|_| dice.percent(share)).collect();
                let named = failed.iter().map(|place| {
                    let id = &asked.ids[*place];
                    serde_json::json!({ "itemIdentifier": id })
                });
                let named: Vec<_> = named.collect();
                let body = serde_json::json!({ "batchItemFailures": named });
                (body.to_string(), failed)
            }
        };
        Meeting {
            act: Act::Entries {
                status,
                body,
                failed,
            },
            ..meeting
        }
    }

    fn timeout_of(&self, name: &str) -> Duration {
        let plans = &self.world.plan.subscriptions;
        let plan = plans.iter().find(|plan| plan.name == name);
        let seconds = plan.and_then(|plan| plan.json["responseTimeoutSeconds"].as_u64());
        Duration::from_secs(seconds.unwrap_or(30))
    }

    /// Waits. Says whether the other side went meanwhile.
    async fn wait(&mut self, span: Duration) -> bool {
        let mut byte = [0; 1];
        tokio::select! {
            biased;
            // Nobody sends a second request before the first is answered.
            _ = self.stream.read(&mut byte) => true,
            () = tokio::time::sleep(span) => false,
        }
    }

    /// Does it. Says whether the connection stays.
    async fn act(&mut self, asked: &Asked, place: Option<Place>, act: Act) -> bool {
        match act {
            Act::Answer {
                status,
                retry_after,
                has_endless_body,
            } => {
                self.world.note(format_args!(
                    "{} answers {status} to {:?} of {}",
                    self.host, asked.ids, asked.subscription
                ));
                let now = self.world.now();
                let reply = Reply {
                    status,
                    retry_after,
                    failed: &[],
                };
                self.world.oracle().answered(now, place, reply);
                let later = retry_after
                    .map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
                let length = if status == 204 {
                    String::new()
                } else {
                    format!(
                        "content-length: {}\r\n",
                        if has_endless_body { 1_000_000 } else { 0 }
                    )
                };
                let head = format!("HTTP/1.1 {status} Simulated\r\n{later}{length}\r\n");
                if self.stream.write_all(head.as_bytes()).await.is_err() {
                    return false;
                }
                if has_endless_body && status != 204 {
                    loop {
                        let is_gone = self.stream.write_all(b"drop").await.is_err();
                        if is_gone || self.wait(Duration::from_millis(700)).await {
                            return false;
                        }
                    }
                }
                true
            }
            Act::Entries {
                status,
                body,
                failed,
            } => {
                self.world.note(format_args!(
                    "{} answers {status} to {:?} of {}, and {body}",
                    self.host, asked.ids, asked.subscription
                ));
                let now = self.world.now();
                let reply = Reply {
                    status,
                    retry_after: None,
                    failed: &failed,
                };
                self.world.oracle().answered(now, place, reply);
                let answer = format!(
                    "HTTP/1.1 {status} Simulated\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                self.stream.write_all(answer.as_bytes()).await.is_ok()
            }
            Act::Greet(greeting) => self.greet(asked, greeting).await,
            Act::Say(bytes) => {
                self.world.oracle().gave_up(place);
                // The other side may have gone.
                let _ = self.stream.write_all(bytes).await;
                false
            }
            Act::Silence => {
                let is_gone = self.wait(Duration::from_secs(3_600)).await;
                self.world.oracle().gave_up(place);
                // An hour is longer than anybody waits.
                debug_assert!(is_gone);
                false
            }
        }
    }
}

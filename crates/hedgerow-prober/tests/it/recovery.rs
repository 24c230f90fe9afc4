//! Behaviour 6: everything down, then one back; and windows that are kept over a change and a restart. On real sockets, with
//! schedules twenty times as fast as the clocks.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::FastClock;
use hedgerow_origin::node::{Event, Saved};
use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::Group;
use hedgerow_origin::snapshot::{Mode, Refused};
use hedgerow_origin::window::State;
use hedgerow_prober::{LiveGroup, Reader};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::network::{Running, Told};
use crate::server::{Server, connector, until};

/// A server whose status changes.
struct Origin {
    server: Server,
    status: Arc<AtomicU16>,
}

impl Origin {
    async fn start() -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let answer = Arc::clone(&status);
        let server = Server::answering(move |mut stream, _| {
            let status = answer.load(Ordering::SeqCst);
            async move {
                let head = format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).await;
            }
        })
        .await;
        Self { server, status }
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn declared(&self, name: &str, priority: u32, enabled: bool) -> Value {
        json!({
            "name": name, "host": "127.0.0.1", "http_port": self.server.address.port(),
            "priority": priority, "enabled": enabled,
        })
    }
}

fn start() -> Running {
    let speed = NonZeroU32::new(20).unwrap();
    let clock = FastClock::new(speed, Timestamp::ZERO);
    Running::start(connector(), Arc::new(clock))
}

fn group(origins: &[Value], more: &Value) -> Arc<Group> {
    let mut declared = json!({
        "probe": {"interval_s": 5},
        "load_balancing": {
            "sample_size": 3, "successful_samples_required": 2, "additional_latency_ms": 1000,
        },
        "origins": origins,
    });
    for (name, value) in more.as_object().unwrap() {
        declared[name] = value.clone();
    }
    Arc::new(Group::read(&declared).unwrap())
}

/// Waits until the origins of a group are in these states.
async fn states(live: &Arc<LiveGroup>, expect: &[State]) {
    let mut reader = live.reader();
    until(&format!("{expect:?}"), async || {
        let origins = reader.current().snapshot.origins();
        let states = origins.iter().map(|view| view.state);
        states.eq(expect.iter().copied()).then_some(())
    })
    .await;
}

/// The places that so many requests go to, and how.
fn chosen(reader: &mut Reader, count: usize) -> (Vec<usize>, Mode) {
    let mut selector = Selector::new();
    let snapshot = &reader.current().snapshot;
    let choices = (0..count).map(|_| selector.select(snapshot, None).unwrap());
    let choices: Vec<_> = choices.collect();
    let mode = choices[0].mode;
    (choices.iter().map(|choice| choice.place).collect(), mode)
}

const UP: State = State::Healthy;
const DOWN: State = State::Unhealthy;

/// FC-23, HP-090 to HP-095: while all fail, requests go round robin over the enabled ones, or as `fail_open` says; with the
/// first that is back the normal choice is; without an enabled one there is none.
#[tokio::test]
async fn everything_down_then_one_back() {
    let (a, b, c, d) = (
        Origin::start().await,
        Origin::start().await,
        Origin::start().await,
        Origin::start().await,
    );
    let declared = |is_enabled: bool| {
        [
            a.declared("a", 1, is_enabled),
            b.declared("b", 1, is_enabled),
            c.declared("c", 2, is_enabled),
            d.declared("d", 1, false),
        ]
    };
    for origin in [&a, &b, &c] {
        origin.set(500);
    }
    let running = start();
    let web = group(&declared(true), &json!({}));
    running.handle.set("web", web).await;
    let live = running.handle.group("web").unwrap();
    states(&live, &[DOWN, DOWN, DOWN, State::Unknown]).await;
    let mut reader = live.reader();
    let (places, mode) = chosen(&mut reader, 6);
    assert_eq!((places, mode), (vec![0, 1, 2, 0, 1, 2], Mode::FailOpen));
    let status = running.handle.status("web").await.unwrap();
    assert!(status.all_unhealthy);
    assert_eq!(status.mode, "fail_open");
    assert_eq!(status.origins[0].last_status, Some(500));

    let top = group(&declared(true), &json!({"fail_open": "top_priority"}));
    running.handle.set("web", top).await;
    let (places, mode) = chosen(&mut reader, 4);
    assert_eq!((places, mode), (vec![0, 1, 0, 1], Mode::FailOpen));
    let none = group(&declared(true), &json!({"fail_open": "none"}));
    running.handle.set("web", none).await;
    let refused = Selector::new().select(&reader.current().snapshot, None);
    assert!(matches!(refused, Err(Refused::GroupUnhealthy { .. })));

    // The one of the lowest priority.
    running
        .handle
        .set("web", group(&declared(true), &json!({})))
        .await;
    c.set(200);
    states(&live, &[DOWN, DOWN, UP, State::Unknown]).await;
    assert_eq!(chosen(&mut reader, 3), (vec![2; 3], Mode::Normal));
    let told = running.kept.take();
    let all_unhealthy = told.iter().filter_map(|told| match told {
        Told::Happened(Event::GroupAllUnhealthy { is_entered, .. }) => Some(*is_entered),
        _ => None,
    });
    assert_eq!(all_unhealthy.collect::<Vec<_>>(), [true, false]);
    a.set(200);
    states(&live, &[UP, DOWN, UP, State::Unknown]).await;
    assert_eq!(chosen(&mut reader, 3), (vec![0; 3], Mode::Normal));

    running
        .handle
        .set("web", group(&declared(false), &json!({})))
        .await;
    let refused = Selector::new().select(&reader.current().snapshot, None);
    assert_eq!(refused, Err(Refused::NoOrigin));
    assert_eq!(d.server.accepted(), 0, "it was never enabled");
    running.stop().await;
}

/// HP-007: a change keeps the windows of the targets that stay. HP-197: a restart keeps them too, provisionally.
#[tokio::test]
async fn windows_are_kept() {
    let (a, b) = (Origin::start().await, Origin::start().await);
    b.set(404);
    let declared = [a.declared("a", 1, true), b.declared("b", 1, true)];
    let running = start();
    running
        .handle
        .set("web", group(&declared, &json!({})))
        .await;
    let live = running.handle.group("web").unwrap();
    states(&live, &[UP, DOWN]).await;
    let before = running.handle.status("web").await.unwrap();

    let larger = json!({
        "load_balancing": {"sample_size": 8, "successful_samples_required": 2},
        "fail_open": "none",
    });
    running.handle.set("web", group(&declared, &larger)).await;
    let mut reader = live.reader();
    assert!(reader.current().snapshot.origins()[0].state == UP);
    let after = running.handle.status("web").await.unwrap();
    assert!(after.origins[0].samples >= before.origins[0].samples);
    assert_eq!(after.origins[0].sample_size, 8);

    // Another path is another target.
    let elsewhere = json!({"probe": {"interval_s": 5, "path": "/health"}});
    running
        .handle
        .set("other", group(&declared, &elsewhere))
        .await;
    let other = running.handle.group("other").unwrap();
    assert_eq!(other.current().snapshot.origins()[0].state, State::Unknown);
    running.handle.remove("other").await;

    let saved = running.stop().await;
    assert!(live.is_gone());
    let stored = serde_json::to_string(&saved).unwrap();
    let read: Saved = serde_json::from_str(&stored).unwrap();
    for saved in [saved, read] {
        let running = start();
        running.handle.restore(saved).await;
        running
            .handle
            .set("web", group(&declared, &json!({})))
            .await;
        let live = running.handle.group("web").unwrap();
        let restored = live.current();
        let origins = restored.snapshot.origins();
        assert_eq!((origins[0].state, origins[1].state), (UP, DOWN));
        assert!(origins[0].latency_us.is_some());
        let status = running.handle.status("web").await.unwrap();
        assert!(status.origins[0].provisional);
        until("a sample of this run", async || {
            let status = running.handle.status("web").await?;
            (!status.origins[0].provisional).then_some(())
        })
        .await;
        running.stop().await;
    }
}

/// FC-24: what the origin answers is judged by what the group expects, and is seen.
#[tokio::test]
async fn statuses_that_are_expected() {
    let origin = Origin::start().await;
    let declared = [
        origin.declared("a", 1, true),
        origin.declared("b", 1, false),
    ];
    let running = start();
    let expecting = json!({"probe": {"interval_s": 5, "expected_statuses": [204, 301, 401]}});
    for (name, more) in [("plain", &json!({})), ("app", &expecting)] {
        running.handle.set(name, group(&declared, more)).await;
    }
    let (plain, app) = (
        running.handle.group("plain").unwrap(),
        running.handle.group("app").unwrap(),
    );
    let unused = State::Unknown;
    for (status, of_plain, of_app) in [
        (200, UP, DOWN),
        (204, DOWN, UP),
        (405, DOWN, DOWN),
        (301, DOWN, UP),
        (401, DOWN, UP),
    ] {
        origin.set(status);
        states(&plain, &[of_plain, unused]).await;
        states(&app, &[of_app, unused]).await;
        until("the status", async || {
            let seen = running.handle.status("plain").await?;
            (seen.origins[0].last_status == Some(status)).then_some(())
        })
        .await;
    }
    running.stop().await;
}

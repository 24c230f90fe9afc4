//! Why an event did or did not reach a subscription (design D12; ED-084, ED-085, ED-311).

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_core::filter::Clause;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{Command, HoldState};
use hedgerow_delivery::explain::{
    DeliveryState, DeliveryStory, EventStory, ExplainQuery, Explanation, Verdict, WaitingFor,
};
use hedgerow_store::catalog::Provisioning;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::history::{History, HistoryOptions};
use hedgerow_store::record::DropReason;
use serde_json::json;

use crate::world::{Greet, Meet, START_MS, World, settings};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(START_MS).plus(Duration::from_secs(seconds))
}

/// A history that is opened at a time.
fn history(disk: &FaultyDisk, opened: Timestamp) -> History {
    let options = HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    };
    History::start(disk.mount(), options, Arc::new(move || opened))
}

/// A world that remembers, by the clock of the tests.
pub fn world(script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static) -> (World, History) {
    let history = history(&FaultyDisk::new(1), at(0));
    let world = World::with_history(settings(), Some(history.handle()), script);
    (world, history)
}

async fn explain(world: &World, id: &str) -> Explanation {
    let query = ExplainQuery {
        event_id: id.to_owned(),
        ..ExplainQuery::default()
    };
    world.handle.explain(query).await.unwrap()
}

async fn only_event(world: &World, id: &str) -> EventStory {
    let mut events = explain(world, id).await.events;
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

fn of<'a>(event: &'a EventStory, name: &str) -> &'a DeliveryStory {
    let mut deliveries = event.deliveries.iter();
    deliveries
        .find(|delivery| delivery.name == name)
        .unwrap_or_else(|| panic!("no subscription {name} in {event:?}"))
}

fn states(event: &EventStory) -> Vec<(&str, Verdict, DeliveryState)> {
    let deliveries = event.deliveries.iter();
    deliveries
        .map(|one| (one.name.as_str(), one.verdict, one.state))
        .collect()
}

/// ED-084: the first clause that fails, in the order of the specification. An event that matched nobody is found too.
#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_wants_names_the_clause_of_each_filter() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    for (name, filter) in [
        (
            "by-type",
            json!({"includedEventTypes": ["Other"], "subjectBeginsWith": "no"}),
        ),
        (
            "by-begin",
            json!({"subjectBeginsWith": "no", "subjectEndsWith": "no"}),
        ),
        ("by-end", json!({"subjectEndsWith": "no"})),
    ] {
        let filter = json!({ "filter": filter });
        world.subscribe("orders", name, filter).await.unwrap();
    }
    let published = world.publish(topic, &["lonely"]).await;
    world.settle().await;
    world.subscribe("orders", "later", json!({})).await.unwrap();
    let event = only_event(&world, "lonely").await;
    let not = |clause| Verdict::NotMatched(Some(clause));
    let none = DeliveryState::NotOwed;
    assert_eq!(
        states(&event),
        [
            ("by-type", not(Clause::IncludedEventTypes), none),
            ("by-begin", not(Clause::SubjectBeginsWith), none),
            ("by-end", not(Clause::SubjectEndsWith), none),
            ("later", Verdict::SubscribedLater, none),
        ]
    );
    assert_eq!((event.published, event.position.seq), (published, 1));
    assert_eq!(event.topic_name.as_deref(), Some("orders"));
    assert!(event.stored.is_some());
}

/// ED-085, ED-152: a subscription whose endpoint has not consented gets nothing, and then what comes from its success on.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_awaits_its_handshake_says_so() {
    let options = HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    };
    let clock = || Timestamp::from_millis(START_MS);
    let history = History::start(FaultyDisk::new(1).mount(), options, Arc::new(clock));
    let mut settings = settings();
    settings.validation.is_enabled = true;
    let world = World::with_history(settings, Some(history.handle()), |_, _| Meet::status(200));
    world.greet(|asked, _| Greet::Answer {
        status: 200,
        headers: Vec::new(),
        body: format!("{{\"validationResponse\":\"{}\"}}", asked.code()),
        after: Duration::from_secs(20),
    });
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["early"]).await;
    world.sleep_until(Duration::from_secs(10)).await;
    let event = only_event(&world, "early").await;
    assert_eq!(
        of(&event, "the-sub").verdict,
        Verdict::NotActive(Provisioning::Creating)
    );
    world.sleep_until(Duration::from_secs(25)).await;
    let event = only_event(&world, "early").await;
    assert_eq!(of(&event, "the-sub").verdict, Verdict::SubscribedLater);
    world.publish(topic, &["after"]).await;
    world.settle().await;
    let event = only_event(&world, "after").await;
    assert_eq!(of(&event, "the-sub").verdict, Verdict::Matched);
}

/// ED-085: the filter in force at the event's position decides, whenever it is asked; also once the event is long past.
#[tokio::test(start_paused = true)]
async fn the_filter_of_the_events_position_explains_it() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let never = json!({ "filter": { "subjectBeginsWith": "no" } });
    world.subscribe("orders", "the-sub", never).await.unwrap();
    world.publish(topic, &["before"]).await;
    world.settle().await;
    let all = json!({ "filter": { "subjectEndsWith": "no" } });
    world.subscribe("orders", "the-sub", all).await.unwrap();
    world.publish(topic, &["after"]).await;
    // The place of the reader is written down: the first filter decides about nothing any more.
    world.sleep_until(Duration::from_secs(3)).await;
    for (id, clause) in [
        ("before", Clause::SubjectBeginsWith),
        ("after", Clause::SubjectEndsWith),
    ] {
        let event = only_event(&world, id).await;
        let verdict = Verdict::NotMatched(Some(clause));
        assert_eq!(of(&event, "the-sub").verdict, verdict, "{id}");
    }
    // A checkpoint later the log has forgotten both: that there was no attempt is still known.
    world.sleep_until(Duration::from_secs(60)).await;
    let event = only_event(&world, "before").await;
    assert_eq!(event.stored, None);
    assert_eq!(of(&event, "the-sub").verdict, Verdict::NotMatched(None));
}

/// What a crash took from the history may have been an attempt: of an event from before a start nobody says that it was not
/// wanted because nothing is remembered.
#[tokio::test(start_paused = true)]
async fn nothing_remembered_from_before_a_start_says_nothing() {
    let disk = FaultyDisk::new(1);
    for (opened, expected) in [
        (at(0), Verdict::NotMatched(None)),
        (at(1_000), Verdict::Unknown),
    ] {
        let history = history(&disk, opened);
        let world =
            World::with_history(settings(), Some(history.handle()), |_, _| Meet::status(200));
        let topic = world.topic("orders").await;
        for (name, prefix) in [("the-sub", "no"), ("others", "")] {
            let filter = json!({ "filter": { "subjectBeginsWith": prefix } });
            world.subscribe("orders", name, filter).await.unwrap();
        }
        let id = format!("e-{}", opened.as_millis());
        world.publish(topic, &[&id]).await;
        world.settle().await;
        world.sleep_until(Duration::from_secs(60)).await;
        history.handle().flush();
        let explanation = explain(&world, &id).await;
        assert_eq!(explanation.attempts_known_since, Some(at(0)));
        let event = &explanation.events[0];
        assert_eq!(event.stored, None);
        assert_eq!(of(event, "the-sub").verdict, expected);
        assert_eq!(of(event, "others").verdict, Verdict::Matched);
    }
}

/// What happens next, at each stage of a delivery's life.
#[tokio::test(start_paused = true)]
async fn each_stage_of_a_delivery_is_told() {
    let meet = |id: &str, attempt: usize| match (id, attempt) {
        ("slow", _) => Meet::late(200, 20),
        ("later", 3) | ("good", _) => Meet::status(200),
        _ => Meet::status(500),
    };
    let (world, _history) = world(meet);
    let topic = world.topic("orders").await;
    let policy = json!({ "retryPolicy": { "maxDeliveryAttempts": 5 } });
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    world
        .publish(topic, &["good", "slow", "later", "bad"])
        .await;
    let state = async |id: &str| {
        let event = only_event(&world, id).await;
        let delivery = of(&event, "the-sub");
        assert_eq!(delivery.verdict, Verdict::Matched);
        (delivery.state, delivery.attempts.len())
    };
    world.settle().await;
    assert_eq!(
        state("good").await,
        (DeliveryState::Delivered { at: at(0) }, 1)
    );
    assert_eq!(
        state("slow").await,
        (DeliveryState::InFlight { attempt: 1 }, 0)
    );
    let due = |seconds, attempts| DeliveryState::AttemptDue {
        at: at(seconds),
        attempts,
    };
    assert_eq!(state("later").await, (due(10, 1), 1));
    world.sleep_until(Duration::from_secs(35)).await;
    assert_eq!(state("later").await, (due(60, 3), 3));
    assert_eq!(
        state("slow").await,
        (DeliveryState::Delivered { at: at(20) }, 1)
    );
    // Further off than what is held in memory: found where the newest record says.
    world.sleep_until(Duration::from_secs(61)).await;
    assert_eq!(state("bad").await, (due(300, 4), 4));
    assert_eq!(
        state("later").await,
        (DeliveryState::Delivered { at: at(60) }, 4)
    );
    world.sleep_until(Duration::from_secs(301)).await;
    let dropped = DeliveryState::Dropped {
        at: Some(at(300)),
        reason: Some(DeadLetterReason::MaxDeliveryAttemptsExceeded),
        why: DropReason::NoDeadLetterDestination,
    };
    assert_eq!(state("bad").await, (dropped, 5));
}

/// ED-245, ED-247: when it is written, that it was, and why it was not.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_followed_to_its_end() {
    let (world, _history) = world(|_, _| Meet::status(400));
    let topic = world.topic("orders").await;
    let destination = json!({
        "retryPolicy": { "maxDeliveryAttempts": 1 },
        "deadLetterDestination": {
            "endpointType": "LocalDirectory",
            "properties": { "path": "letters" },
        },
    });
    world
        .subscribe("orders", "the-sub", destination)
        .await
        .unwrap();
    world.publish(topic, &["bad"]).await;
    world.settle().await;
    let state = async || of(&only_event(&world, "bad").await, "the-sub").state;
    let reason = DeadLetterReason::UndeliverableDueToHttpBadRequest;
    let due = |seconds, failed_writes| DeliveryState::DeadLetterDue {
        at: at(seconds),
        reason,
        failed_writes,
    };
    assert_eq!(state().await, due(300, 0));
    world.sleep_until(Duration::from_secs(301)).await;
    assert_eq!(
        state().await,
        DeliveryState::DeadLettered {
            at: at(300),
            reason
        }
    );
}

/// The same id may be published again, and to another topic: each event is told of.
#[tokio::test(start_paused = true)]
async fn every_event_with_the_id_is_explained() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let orders = world.topic("orders").await;
    let bills = world.topic("bills").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(orders, &["twice"]).await;
    world.publish(bills, &["other", "twice"]).await;
    world.publish(orders, &["twice"]).await;
    world.settle().await;
    let events = explain(&world, "twice").await.events;
    let positions: Vec<_> = events
        .iter()
        .map(|event| (event.position.topic, event.position.seq))
        .collect();
    let mut expect = [(orders, 1), (bills, 2), (orders, 2)];
    expect.sort_unstable();
    assert_eq!(positions, expect);
    for event in &events {
        let topic = event.position.topic;
        assert_eq!(event.deliveries.len(), usize::from(topic == orders));
        assert!(event.deliveries.iter().all(|one| one.attempts.len() == 1));
    }
    let query = ExplainQuery {
        event_id: "twice".to_owned(),
        topic: Some("Bills".to_owned()),
        subscription: None,
        ..ExplainQuery::default()
    };
    let of_bills = world.handle.explain(query).await.unwrap().events;
    assert_eq!(of_bills.len(), 1);
    let nowhere = ExplainQuery {
        event_id: "twice".to_owned(),
        topic: Some("nowhere".to_owned()),
        subscription: None,
        ..ExplainQuery::default()
    };
    assert!(world.handle.explain(nowhere).await.is_err());
}

/// ED-265: what was replayed to one subscription was none for the others, and is said so.
#[tokio::test(start_paused = true)]
async fn a_replayed_event_is_one_for_its_subscription_only() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let mine = world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.subscribe("orders", "other", json!({})).await.unwrap();
    let mut replayed = crate::world::event("again");
    let to = mine.subscription.id.0.to_string();
    let entry = (hedgerow_core::event::REPLAY_TO.into(), to.into());
    replayed.extensions.push(entry);
    world.publish_event(topic, &replayed).await;
    world.settle().await;
    assert_eq!(world.seen().len(), 1);
    let event = only_event(&world, "again").await;
    let told: Vec<_> = event
        .deliveries
        .iter()
        .map(|one| (one.name.as_str(), one.verdict, one.state))
        .collect();
    let expected = [
        (
            "the-sub",
            Verdict::Matched,
            DeliveryState::Delivered { at: at(0) },
        ),
        ("other", Verdict::ReplayedToAnother, DeliveryState::NotOwed),
    ];
    assert_eq!(told, expected);
}

/// A subscription that was deleted since is told of as far as its attempts are remembered; one that took its name is
/// another one.
#[tokio::test(start_paused = true)]
async fn a_deleted_subscription_is_told_of() {
    let (world, _history) = world(|id, _| Meet::status(if id == "good" { 200 } else { 500 }));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["good", "bad"]).await;
    world.settle().await;
    world.unsubscribe("orders", "the-sub").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let delivered = DeliveryState::Delivered { at: at(0) };
    let dropped = DeliveryState::Dropped {
        at: None,
        reason: None,
        why: DropReason::SubscriptionDeleted,
    };
    for (id, state) in [("good", delivered), ("bad", dropped)] {
        let event = only_event(&world, id).await;
        let seen: Vec<_> = event
            .deliveries
            .iter()
            .map(|one| (one.is_deleted, one.verdict, one.state))
            .collect();
        let later = (false, Verdict::SubscribedLater, DeliveryState::NotOwed);
        assert_eq!(seen, [(true, Verdict::Matched, state), later], "{id}");
    }
}

/// What an operator dropped: told by the history, or worked out from the purge where the history knows nothing.
#[tokio::test(start_paused = true)]
async fn a_purge_is_told_of() {
    for remembers in [true, false] {
        let (mut world, history) =
            world(|id, _| Meet::status(if id == "good" { 200 } else { 500 }));
        let topic = world.topic("orders").await;
        let declared = json!({ "filter": { "includedEventTypes": ["Orders.Created"] } });
        world
            .subscribe("orders", "the-sub", declared)
            .await
            .unwrap();
        world.publish(topic, &["good", "tried"]).await;
        world.settle().await;
        let other = hedgerow_core::event::Event {
            event_type: "Other".into(),
            ..crate::world::event("unwanted")
        };
        let ask = async |world: &World, is_paused| {
            let asked = world.handle.ask(|answer| Command::PauseSubscription {
                topic: "orders".to_owned(),
                name: "the-sub".to_owned(),
                is_paused,
                answer,
            });
            asked.await.unwrap();
        };
        ask(&world, true).await;
        world.publish(topic, &["untried"]).await;
        world.publish_event(topic, &other).await;
        world.settle().await;
        if !remembers {
            // It takes no records any more, and still tells those that it has.
            drop(history);
        }
        let asked = world.handle.ask(|answer| Command::PurgeSubscription {
            topic: "orders".to_owned(),
            name: "the-sub".to_owned(),
            answer,
        });
        assert_eq!(asked.await.unwrap().dropped, 2);
        ask(&world, false).await;
        world.crash().await;
        world.settle().await;
        let purged = DeliveryState::Dropped {
            at: Some(at(0)),
            reason: None,
            why: DropReason::Purged,
        };
        let clause = Verdict::NotMatched(Some(Clause::IncludedEventTypes));
        for (id, verdict, state) in [
            ("tried", Verdict::Matched, purged),
            ("untried", Verdict::Matched, purged),
            ("unwanted", clause, DeliveryState::NotOwed),
            (
                "good",
                Verdict::Matched,
                DeliveryState::Delivered { at: at(0) },
            ),
        ] {
            let event = only_event(&world, id).await;
            let delivery = of(&event, "the-sub");
            let state_of = match delivery.state {
                DeliveryState::Dropped {
                    reason,
                    why,
                    at: Some(_),
                } => DeliveryState::Dropped {
                    at: Some(at(0)),
                    reason,
                    why,
                },
                state => state,
            };
            assert_eq!((delivery.verdict, state_of), (verdict, state), "{id}");
        }
        world.publish(topic, &["good"]).await;
        // The log has forgotten them: whether it matched is not known, that it was purged is.
        world.sleep_until(Duration::from_secs(60)).await;
        if !remembers {
            let event = only_event(&world, "untried").await;
            let delivery = of(&event, "the-sub");
            assert!(
                matches!(delivery.verdict, Verdict::PurgedUnknown(_)),
                "{delivery:?}"
            );
            assert_eq!(delivery.state, DeliveryState::Unknown);
        }
    }
}

/// What a deletion dropped before any attempt, and who did not want it, are told of without a record for each event; and the
/// event of a topic that has a successor of the same name.
#[tokio::test(start_paused = true)]
async fn what_a_deletion_dropped_is_told_of() {
    let (mut world, _history) = world(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let never = json!({ "filter": { "subjectBeginsWith": "no" } });
    world.subscribe("orders", "never", never).await.unwrap();
    let asked = world.handle.ask(|answer| Command::PauseSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        is_paused: true,
        answer,
    });
    asked.await.unwrap();
    world.publish(topic, &["untried"]).await;
    world.settle().await;
    world.unsubscribe("orders", "the-sub").await;
    world.unsubscribe("orders", "never").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["after"]).await;
    world.settle().await;
    let dropped = DeliveryState::Dropped {
        at: None,
        reason: None,
        why: DropReason::SubscriptionDeleted,
    };
    let no = Verdict::NotMatched(Some(Clause::SubjectBeginsWith));
    let expected = [
        ("the-sub", Verdict::Matched, dropped),
        ("never", no, DeliveryState::NotOwed),
        ("the-sub", Verdict::SubscribedLater, DeliveryState::NotOwed),
    ];
    for crashes in [false, true] {
        if crashes {
            world.crash().await;
        }
        assert_eq!(states(&only_event(&world, "untried").await), expected);
        // Those came before it.
        assert_eq!(only_event(&world, "after").await.deliveries.len(), 1);
    }
    let asked = world.handle.ask(|answer| Command::DeleteTopic {
        name: "orders".to_owned(),
        answer,
    });
    asked.await.unwrap();
    world.topic("orders").await;
    let query = ExplainQuery {
        event_id: "after".to_owned(),
        topic: Some("orders".to_owned()),
        ..ExplainQuery::default()
    };
    let events = world.handle.explain(query).await.unwrap().events;
    assert_eq!(events.len(), 1, "of the topic that was called so then");
    assert!(events[0].is_topic_deleted);
    let of_it: Vec<_> = states(&events[0])
        .into_iter()
        .map(|(name, verdict, _)| (name, verdict))
        .collect();
    assert_eq!(of_it, [("the-sub", Verdict::Matched)]);
}

/// The same of events that wait behind one of their key: those are begun, and no attempt tells of them.
#[tokio::test(start_paused = true)]
async fn what_waited_behind_one_of_its_key_is_told_of() {
    let (mut world, _history) = world(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    let ordered = json!({ "ordering": { "key": "subject" } });
    world.subscribe("orders", "the-sub", ordered).await.unwrap();
    world.publish(topic, &["head", "behind"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["head"]);
    world.unsubscribe("orders", "the-sub").await;
    let dropped = DeliveryState::Dropped {
        at: None,
        reason: None,
        why: DropReason::SubscriptionDeleted,
    };
    for has_crashed in [false, true] {
        if has_crashed {
            world.crash().await;
        }
        for id in ["head", "behind"] {
            let event = only_event(&world, id).await;
            assert_eq!(
                states(&event),
                [("the-sub", Verdict::Matched, dropped)],
                "{id}, after a crash: {has_crashed}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_id_says_since_when_it_would_be_known() {
    let (world, _history) = world(|_, _| Meet::status(200));
    world.topic("orders").await;
    let explanation = explain(&world, "never").await;
    assert!(explanation.events.is_empty());
    assert_eq!(explanation.ids_known_since, Some(at(0)));
    assert_eq!(explanation.attempts_known_since, Some(at(0)));
}

/// What is told of a delivery that is owed: its state, the hold, and what it waits for.
async fn waits(world: &World, id: &str) -> (DeliveryState, Option<(HoldState, WaitingFor)>) {
    let event = only_event(world, id).await;
    let delivery = of(&event, "the-sub");
    let waiting = delivery.waiting;
    let waiting = waiting.map(|waiting| (waiting.hold.state, waiting.waiting_for));
    (delivery.state, waiting)
}

/// ED-225, ED-230: probation, its cause and its end; then the lone trial.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_probation_holds_says_until_when() {
    let (world, _history) = world(|_, _| Meet::status(503));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1", "e2", "e3"]).await;
    world.settle().await;
    world.publish(topic, &["held"]).await;
    world.settle().await;
    let event = only_event(&world, "held").await;
    let delivery = of(&event, "the-sub");
    assert_eq!(delivery.state, DeliveryState::FirstAttemptPending);
    let waiting = delivery.waiting.unwrap();
    let info = world.info("orders", "the-sub").await.hold;
    assert_eq!(waiting.waiting_for, WaitingFor::EndOfHold);
    assert_eq!(
        (waiting.hold.state, waiting.hold.cause, waiting.hold.until),
        (HoldState::Probation, Some(Outcome::Busy), info.until)
    );
    assert!(waiting.hold.until.is_some_and(|until| until > at(0)));
}

/// ED-238: what a window held is let go at a pace, which is told of events that were never attempted too.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_let_go_at_a_pace_says_until_when() {
    let history = history(&FaultyDisk::new(1), at(0));
    let mut settings = settings();
    settings.released_per_second = 10;
    let world = World::with_history(settings, Some(history.handle()), |id, attempt| {
        Meet::status(if id.starts_with("bad") && attempt == 0 {
            500
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    let two = json!({"delayedDelivery": {"events": 2}});
    world.subscribe("orders", "the-sub", two).await.unwrap();
    world.publish(topic, &["bad1", "bad2"]).await;
    world.sleep_until(Duration::from_secs(1)).await;
    let ids: Vec<_> = (0..60).map(|n| format!("e{n}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    world.sleep_until(Duration::from_millis(62_500)).await;
    let (state, waiting) = waits(&world, "e59").await;
    assert_eq!(state, DeliveryState::FirstAttemptPending);
    let until = at(63);
    assert_eq!(
        waiting,
        Some((HoldState::Healthy, WaitingFor::Pace { until }))
    );
    // What came after the window starts behind it.
    world.publish(topic, &["later"]).await;
    world.settle().await;
    let (_, waiting) = waits(&world, "later").await;
    assert_eq!(
        waiting,
        Some((HoldState::Healthy, WaitingFor::Pace { until }))
    );
}

/// ED-312: paused, since when.
#[tokio::test(start_paused = true)]
async fn a_delivery_of_a_paused_subscription_says_so() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let paused = world.handle.ask(|answer| Command::PauseSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        is_paused: true,
        answer,
    });
    paused.await.unwrap();
    world.publish(topic, &["held"]).await;
    world.settle().await;
    let event = only_event(&world, "held").await;
    let waiting = of(&event, "the-sub").waiting.unwrap();
    assert_eq!(waiting.waiting_for, WaitingFor::Resume);
    assert_eq!(
        (waiting.hold.state, waiting.hold.since),
        (HoldState::Paused, Some(at(0)))
    );
}

/// A turn at the endpoint's limit, a subscription that lags behind, and a time that has not come.
#[tokio::test(start_paused = true)]
async fn what_a_delivery_waits_for_is_told() {
    let options = HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    };
    let clock = || Timestamp::from_millis(START_MS);
    let history = History::start(FaultyDisk::new(1).mount(), options, Arc::new(clock));
    let mut settings = settings();
    let (start, min, max) = (2, 2, 2);
    settings.credits = CreditSettings { start, min, max };
    let meet = |id: &str, _| match id {
        "fails" => Meet::status(500),
        _ => Meet::late(200, 20),
    };
    let world = World::with_history(settings, Some(history.handle()), meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.publish(topic, &["fails"]).await;
    world.settle().await;
    let due = published.plus(Duration::from_secs(10));
    assert_eq!(
        waits(&world, "fails").await,
        (
            DeliveryState::AttemptDue {
                at: due,
                attempts: 1
            },
            Some((HoldState::Healthy, WaitingFor::DueTime { at: due }))
        )
    );
    world.publish(topic, &["e1", "e2", "waits"]).await;
    world.settle().await;
    let first = DeliveryState::FirstAttemptPending;
    let turn = |is_slow| WaitingFor::Turn {
        open: 2,
        limit: 2,
        is_slow,
    };
    let expected = (first, Some((HoldState::Healthy, turn(false))));
    assert_eq!(waits(&world, "waits").await, expected);
    assert_eq!(waits(&world, "e1").await.1, None, "an attempt runs");
    world.sleep_until(Duration::from_secs(5)).await;
    let (_, waiting) = waits(&world, "waits").await;
    assert!(
        matches!(waiting, Some((_, WaitingFor::Turn { is_slow: true, .. }))),
        "{waiting:?}"
    );
    let ids: Vec<_> = (0..6_000).map(|n| format!("more-{n}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    world.settle().await;
    let (state, waiting) = waits(&world, "more-5999").await;
    assert_eq!(state, first);
    let Some((HoldState::Healthy, WaitingFor::Reading { behind })) = waiting else {
        panic!("{waiting:?}");
    };
    assert!((1..=6_000).contains(&behind), "{behind}");
}

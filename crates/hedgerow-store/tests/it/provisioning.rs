//! A subscription whose endpoint has to consent first: what it keeps of the log, from where on it receives, and what is in
//! force while an update waits (ED-085, ED-163). Each state is as it was after the view was opened again.

use std::num::NonZeroU32;

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::Liveness as _;
use hedgerow_store::catalog::{
    Change, Exchange, Provisioning, Subscription, Validation, ValidationState,
};
use hedgerow_store::record::{Read, Record};

use crate::grid::{Grid, TOPICS};

const TOPIC: TopicId = TOPICS[1];
const LATE: SubscriptionId = SubscriptionId(4);

fn spec(path: &str, begins_with: &str) -> Box<SubscriptionSpec> {
    let url = format!("https://late.example/{path}?code=canary");
    let mut spec = SubscriptionSpec::webhook(EndpointUrl::parse(&url).unwrap());
    begins_with.clone_into(&mut spec.filter.subject_begins_with);
    Box::new(spec)
}

fn validation(token: &str) -> Validation {
    Validation::new(token.to_owned())
}

fn failed() -> ValidationState {
    let exchange = Exchange {
        message: "no".to_owned(),
        ..Exchange::default()
    };
    ValidationState::Failed { exchange }
}

fn awaiting() -> ValidationState {
    ValidationState::AwaitingManualAction {
        until: Timestamp::from_millis(300_000),
        exchange: Exchange::default(),
    }
}

fn validated(state: ValidationState) -> Change {
    Change::SubscriptionValidated {
        id: LATE,
        state,
        allowed_rate: NonZeroU32::new(120),
    }
}

/// Publishes so many events to the topic.
fn publish(grid: &mut Grid, count: usize) {
    for _ in 0..count {
        grid.publish(TOPIC, 10);
    }
    grid.commit();
}

/// Declares it with a handshake, behind two events.
fn created() -> Grid {
    let mut grid = Grid::new(1);
    publish(&mut grid, 2);
    grid.declare(&Change::SubscriptionCreated {
        id: LATE,
        topic: TOPIC,
        domain_topic: None,
        name: "late".parse().unwrap(),
        spec: spec("one", ""),
        created: Timestamp::ZERO,
        validation: Some(validation("canary-token")),
    });
    grid
}

fn late(grid: &Grid) -> Subscription {
    grid.view.catalog().subscription(LATE).unwrap().clone()
}

/// Everybody who stands there has read everything.
fn read_all(grid: &mut Grid) {
    let read_to = grid.view.next_seq(TOPIC);
    grid.journal(Record::Read(Read {
        topic: TOPIC,
        read_to,
        laggards: Vec::new(),
    }));
    grid.commit();
}

#[test]
fn a_subscription_that_waits_keeps_nothing_and_begins_where_it_succeeds() {
    let mut grid = created();
    for state in [ValidationState::Creating, awaiting(), failed()] {
        if state != ValidationState::Creating {
            grid.declare(&validated(state.clone()));
        }
        publish(&mut grid, 2);
        read_all(&mut grid);
        let found = late(&grid);
        assert!(!found.is_active(), "{state:?}");
        assert_eq!(found.provisioning(), state.provisioning());
        assert_eq!(found.validation.unwrap().state, state);
        let newest = grid.view.next_seq(TOPIC) - 1;
        let needed = grid.view.needed(TOPIC, 1..=newest);
        assert_eq!(needed.from, newest + 1, "{state:?}: the log may forget all");
    }
    // It is declared again, and this time it succeeds.
    grid.declare(&Change::SubscriptionUpdated {
        id: LATE,
        spec: spec("two", ""),
        validation: Some(validation("canary-2")),
    });
    publish(&mut grid, 1);
    assert_eq!(late(&grid).provisioning(), Provisioning::Creating);
    let begins = grid.view.next_seq(TOPIC);
    grid.declare(&validated(ValidationState::Succeeded));
    publish(&mut grid, 3);
    let found = late(&grid);
    assert_eq!(found.provisioning(), Provisioning::Succeeded);
    assert_eq!(found.spec, *spec("two", ""));
    assert_eq!(found.filters.len(), 1);
    assert_eq!(found.filters[0].from_seq, begins, "nothing older (ED-085)");
    assert_eq!(found.allowed_rate, NonZeroU32::new(120), "ED-167");
    assert_eq!(grid.view.cursor(LATE), begins);
    assert!(grid.view.needed(TOPIC, 1..=begins).from <= begins);
    grid.checkpoint();
    grid.reopen();
    assert_eq!(late(&grid), found);
    assert_eq!(grid.view.cursor(LATE), begins);
}

/// ED-163: what was in force stays so, its filter too, until the update succeeds.
#[test]
fn an_update_waits_whole() {
    let mut grid = created();
    grid.declare(&validated(ValidationState::Succeeded));
    let begins = grid.view.next_seq(TOPIC);
    for (number, state) in [ValidationState::Creating, awaiting(), failed()]
        .into_iter()
        .enumerate()
    {
        let new = spec(&format!("new-{number}"), "/b");
        grid.declare(&Change::SubscriptionUpdated {
            id: LATE,
            spec: new.clone(),
            validation: Some(validation("canary-2")),
        });
        if state != ValidationState::Creating {
            grid.declare(&validated(state.clone()));
        }
        publish(&mut grid, 1);
        grid.checkpoint();
        grid.reopen();
        let found = late(&grid);
        assert!(found.is_active());
        assert_eq!(found.provisioning(), Provisioning::Succeeded);
        assert_eq!(found.newest_provisioning(), state.provisioning());
        assert_eq!(found.spec, *spec("one", ""), "the old one is in force");
        assert_eq!(
            found.update,
            Some(new),
            "a later update replaces one that waits"
        );
        assert_eq!(found.filters.len(), 1);
        assert_eq!(found.filters[0].from_seq, begins);
        assert_eq!(found.allowed_rate, NonZeroU32::new(120));
    }
    let from = grid.view.next_seq(TOPIC);
    grid.declare(&Change::SubscriptionValidated {
        id: LATE,
        state: ValidationState::Succeeded,
        allowed_rate: None,
    });
    let found = late(&grid);
    assert_eq!(found.spec, *spec("new-2", "/b"));
    assert_eq!(found.update, None);
    assert_eq!(
        found.filters.len(),
        2,
        "the new filter decides from here on"
    );
    assert_eq!(found.filters[1].from_seq, from);
    assert_eq!(found.allowed_rate, None, "it is another endpoint");
    assert_eq!(grid.view.cursor(LATE), begins, "what is owed stays owed");
}

/// A declaration without a handshake ends whatever waited for one.
#[test]
fn an_update_without_a_handshake_holds_at_once() {
    let mut grid = created();
    let change = |path| Change::SubscriptionUpdated {
        id: LATE,
        spec: spec(path, ""),
        validation: None,
    };
    let begins = grid.view.next_seq(TOPIC);
    grid.declare(&change("two"));
    assert_eq!(late(&grid).provisioning(), Provisioning::Succeeded);
    assert_eq!(grid.view.cursor(LATE), begins);
    grid.declare(&Change::SubscriptionUpdated {
        id: LATE,
        spec: spec("three", ""),
        validation: Some(validation("canary-2")),
    });
    grid.declare(&change("two"));
    let found = late(&grid);
    assert_eq!((found.update, found.validation), (None, None));
    assert_eq!(found.spec, *spec("two", ""));
}

#[test]
fn one_that_waits_can_be_deleted() {
    let mut grid = created();
    grid.declare(&Change::SubscriptionDeleted { id: LATE });
    assert!(grid.view.catalog().subscription(LATE).is_none());
    grid.reopen();
    assert!(grid.view.catalog().subscription(LATE).is_none());
}

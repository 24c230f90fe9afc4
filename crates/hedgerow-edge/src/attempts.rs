//! Which origins a request is sent to, one after the other (HP-172 to HP-174): the same for all versions of HTTP.

use std::sync::Arc;

use hedgerow_origin::outcome::{Met, Reason};
use hedgerow_origin::selector::Choice;
use hedgerow_origin::snapshot::{Mode, Places};

use crate::answer::Own;
use crate::edge::Shared;
use crate::limits;
use crate::pool::NotOpen;
use crate::routing::{GroupState, Origins};
use crate::upstream::{Broken, Cut, NotSent};

/// Why an attempt at an origin gave no answer.
pub(crate) enum Failed {
    /// There is no connection: nothing was sent.
    NotOpen(NotOpen),
    /// It was asked, and there was no head of a response.
    Broken(Broken),
    /// The client's request did not come as a whole.
    Client(NotSent),
    /// The response was begun, and will not end.
    Cut(Cut),
}

/// What a request came to.
pub(crate) struct Asked<T> {
    pub result: Result<T, Given>,
    /// How many origins were asked.
    pub attempts: u32,
    /// The last of them.
    pub origin: Option<String>,
}

/// Why there is no answer of an origin.
pub(crate) enum Given {
    /// The edge answers.
    Own(Own),
    /// The client's request did not come as a whole.
    Client(NotSent),
    /// The response was begun, and will not end.
    Cut(Cut),
}

/// A request that can be sent to an origin.
pub(crate) trait Ask: Send {
    /// What an origin's answer is.
    type Answer: Send;

    /// The place of the origin that a valid cookie of its session names (HP-142).
    fn pinned(&self, origins: &Origins) -> Option<usize>;

    /// Whether it may be sent again after it was sent (HP-173).
    fn may_resend(&self) -> bool;

    /// Asks one origin.
    fn ask(
        &mut self,
        origins: &Origins,
        choice: Choice,
    ) -> impl Future<Output = Result<Self::Answer, Failed>> + Send;
}

/// Asks an origin of the group, and others if need be.
pub(crate) async fn ask_origins<A: Ask>(
    shared: &Shared,
    group: &Arc<GroupState>,
    mut request: A,
) -> Asked<A::Answer> {
    group.live.used();
    group.count_request(shared.now());
    let current = group.live.current();
    let origins = group.origins(&current.group, &shared.affinity_key);
    let has_affinity = current.snapshot.choosing().has_affinity;
    let pinned = has_affinity.then(|| request.pinned(&origins)).flatten();
    let pinned = pinned.and_then(|place| current.snapshot.origins().get(place));
    let chosen = group.select(&current.snapshot, pinned.map(|view| view.id));
    let mut choice = match chosen {
        Ok(choice) => choice,
        Err(refused) => {
            group.live.selected(None, Mode::None);
            return Asked {
                result: Err(Given::Own(Own::unchosen(refused, current.group.interval()))),
                attempts: 0,
                origin: None,
            };
        }
    };
    let mut tried = Places::NONE;
    let mut attempts = 0;
    loop {
        attempts += 1;
        group.live.selected(Some(choice.id), choice.mode);
        let result = request.ask(&origins, choice).await;
        let origin = origins.settings(choice.place);
        let origin = origin.map(|origin| origin.name.clone());
        let (reason, was_sent) = match result {
            Ok(answered) => {
                return Asked {
                    result: Ok(answered),
                    attempts,
                    origin,
                };
            }
            Err(Failed::NotOpen(NotOpen::Failed(reason))) => (reason, false),
            Err(Failed::Broken(broken)) => (broken.reason, true),
            Err(given) => {
                let given = match given {
                    Failed::Client(not_sent) => Given::Client(not_sent),
                    Failed::Cut(cut) => Given::Cut(cut),
                    Failed::NotOpen(_) | Failed::Broken(_) => Given::Own(Own::OVERLOADED),
                };
                return Asked {
                    result: Err(given),
                    attempts,
                    origin,
                };
            }
        };
        group.live.met(choice.id, Met::Failure(reason));
        tried = tried.with(choice.place);
        let may_again = !was_sent || (request.may_resend() && reason != Reason::Timeout);
        let other = (may_again && attempts <= limits::FURTHER_ATTEMPTS_MAX)
            .then(|| other(group, &origins, tried))
            .flatten()
            .filter(|_| group.take_retry(shared.now()));
        let Some(other) = other else {
            return Asked {
                result: Err(Given::Own(Own::failed(reason))),
                attempts,
                origin,
            };
        };
        shared.observer.retried(group.live.name());
        choice = other;
    }
}

/// Another origin, of those that were not tried. None where the group's settings are others by now: its places are too.
fn other(group: &GroupState, origins: &Origins, tried: Places) -> Option<Choice> {
    let current = group.live.current();
    if !Arc::ptr_eq(&current.group, &origins.group) {
        return None;
    }
    let other = group.select_untried(&current.snapshot, tried).ok()?;
    (!tried.contains(other.place)).then_some(other)
}

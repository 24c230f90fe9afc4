//! Which of the kept origins a request goes to: smooth weighted round robin with counters (HP-127, HP-128), the session's own
//! origin (HP-142 to HP-144), another one for a retry or a hedge (HP-173, HP-200, HP-204), or the less loaded of two
//! (HP-196).
//!
//! A selector belongs to one thread, and allocates only when it is made (HP-129, HP-130). What it decides is a function of
//! the snapshot and its counters alone.

use crate::settings::Strategy;
use crate::snapshot::{Mode, ORIGINS_MAX, OriginView, Places, Refused, Snapshot, step_weight};
use crate::window::State;

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Its place in the configuration's order.
    pub place: usize,
    /// The [`OriginView::id`] of the origin.
    pub id: u32,
    /// How it was chosen.
    pub mode: Mode,
    /// Whether the session is to be pinned to it from now on (HP-104, HP-141 to HP-144). Whether the response may carry the
    /// cookie is decided by who sends it (HP-145).
    pub set_affinity: bool,
}

/// How loaded an origin is, for [`Strategy::P2cEwma`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests that wait for their response.
    pub in_flight: u32,
    /// The moving average of the latency of real requests, in microseconds.
    pub latency_us: u64,
}

/// The counter of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    id: u32,
    /// With another configured weight it is a newcomer: a counter means something only beside the weights it was made with.
    weight: u32,
    counter: i64,
}

/// The counters of one round robin: those of the kept set, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wheel {
    slots: Vec<Slot>,
    /// The counters are of plain steps, in which all weights are 1.
    is_plain: bool,
    /// Where slots are put in order.
    spare: Vec<Slot>,
}

impl Wheel {
    fn new() -> Self {
        Self {
            slots: Vec::with_capacity(ORIGINS_MAX),
            is_plain: false,
            spare: Vec::with_capacity(ORIGINS_MAX),
        }
    }

    /// One step over these origins.
    fn turn(&mut self, snapshot: &Snapshot, mode: Mode, places: Places) -> Option<usize> {
        self.align(snapshot, mode, places);
        let mut sum = 0_i64;
        let mut highest: Option<(usize, usize, i64)> = None;
        let places = places.iter().zip(self.slots.iter_mut().enumerate());
        for (place, (index, slot)) in places {
            let Some(origin) = snapshot.origins().get(place) else {
                continue;
            };
            let weight = i64::try_from(step_weight(origin, mode)).unwrap_or(i64::MAX);
            slot.counter = slot.counter.saturating_add(weight);
            sum = sum.saturating_add(weight);
            if highest.is_none_or(|(.., counter)| slot.counter > counter) {
                highest = Some((place, index, slot.counter));
            }
        }
        let (place, index, counter) = highest?;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.counter = counter.saturating_sub(sum);
        }
        Some(place)
    }

    /// When the kept set changes, origins that stay keep their counters, newcomers start at 0 (HP-128).
    fn align(&mut self, snapshot: &Snapshot, mode: Mode, places: Places) {
        let is_plain = mode == Mode::FailOpen;
        let is_same = self.is_plain == is_plain
            && self.slots.len() == places.count() as usize
            && places.iter().zip(&self.slots).all(|(place, slot)| {
                let origin = snapshot.origins().get(place);
                origin.is_some_and(|origin| slot.is_of(origin))
            });
        if is_same {
            return;
        }
        if self.is_plain != is_plain {
            self.slots.clear();
            self.is_plain = is_plain;
        }
        self.spare.clear();
        for place in places.iter() {
            let Some(origin) = snapshot.origins().get(place) else {
                continue;
            };
            let stayed = self.slots.iter().find(|slot| slot.is_of(origin));
            self.spare.push(stayed.copied().unwrap_or(Slot {
                id: origin.id,
                weight: origin.weight,
                counter: 0,
            }));
        }
        std::mem::swap(&mut self.slots, &mut self.spare);
    }
}

impl Slot {
    const fn is_of(&self, origin: &OriginView) -> bool {
        self.id == origin.id && self.weight == origin.weight
    }
}

/// Chooses origins of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    first: Wheel,
    /// Of retries and hedges, so that they take nothing from the order of first attempts.
    again: Wheel,
}

impl Default for Selector {
    fn default() -> Self {
        Self::new()
    }
}

impl Selector {
    /// A selector whose counters are all 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            first: Wheel::new(),
            again: Wheel::new(),
        }
    }

    /// Chooses for a request. `pinned` is the [`OriginView::id`] that a valid affinity cookie names.
    ///
    /// # Errors
    ///
    /// Why nothing can be chosen.
    pub fn select(&mut self, snapshot: &Snapshot, pinned: Option<u32>) -> Result<Choice, Refused> {
        let kept = snapshot.kept()?;
        if let Some(choice) = follow(snapshot, kept.mode, pinned) {
            return Ok(choice);
        }
        let place = self.first.turn(snapshot, kept.mode, kept.places);
        choice(snapshot, kept.mode, pinned, place.ok_or(Refused::NoOrigin)?)
    }

    /// The same by [`Strategy::P2cEwma`] (HP-196): two of the kept ones are drawn by weight, and the one with the lower
    /// (in flight + 1) × latency is taken. `draws` are in [0, 1); `load` is asked by place. A group that fails open goes
    /// round all the same (HP-090).
    ///
    /// # Errors
    ///
    /// Why nothing can be chosen.
    pub fn select_loaded(
        &mut self,
        snapshot: &Snapshot,
        pinned: Option<u32>,
        draws: [f64; 2],
        load: impl Fn(usize) -> Load,
    ) -> Result<Choice, Refused> {
        let kept = snapshot.kept()?;
        let is_drawn = snapshot.choosing().strategy == Strategy::P2cEwma
            && matches!(kept.mode, Mode::Normal | Mode::UnknownTier);
        if !is_drawn {
            return self.select(snapshot, pinned);
        }
        if let Some(choice) = follow(snapshot, kept.mode, pinned) {
            return Ok(choice);
        }
        let [first, second] = draws;
        let one = drawn(snapshot, kept.places, first).ok_or(Refused::NoOrigin)?;
        let others = kept.places.without(Places::NONE.with(one));
        let cost = |place| {
            let load = load(place);
            u128::from(load.in_flight).saturating_add(1) * u128::from(load.latency_us.max(1))
        };
        let place = match drawn(snapshot, others, second) {
            Some(other) if cost(other) < cost(one) => other,
            _ => one,
        };
        choice(snapshot, kept.mode, pinned, place)
    }

    /// Chooses for a retry through the edge, or for a hedge: by section 12 among those that were not tried, lower priorities
    /// included when the first is used up (HP-173, HP-204).
    ///
    /// # Errors
    ///
    /// If there is none; a hedge then goes to the same origin on another connection.
    pub fn select_untried(
        &mut self,
        snapshot: &Snapshot,
        tried: Places,
    ) -> Result<Choice, Refused> {
        let kept = snapshot.keep(tried)?;
        let place = self.again.turn(snapshot, kept.mode, kept.places);
        choice(snapshot, kept.mode, None, place.ok_or(Refused::NoOrigin)?)
    }

    /// Chooses for a further attempt to deliver an event: among the kept ones one other than the last that failed for it, if
    /// there is one (HP-200).
    ///
    /// # Errors
    ///
    /// Why nothing can be chosen.
    pub fn select_other(
        &mut self,
        snapshot: &Snapshot,
        last_failed: Option<u32>,
    ) -> Result<Choice, Refused> {
        let choice = self.select_other_free(snapshot, last_failed, Places::ALL)?;
        choice.ok_or(Refused::NoOrigin)
    }

    /// The same among those that can take an attempt now; `None` if each of the kept ones could be chosen, and none of them can
    /// take it. An origin that is busy hands its share to the other kept ones, and never to one that is not kept: who waits,
    /// waits for the kept.
    ///
    /// # Errors
    ///
    /// Why nothing can be chosen.
    pub fn select_other_free(
        &mut self,
        snapshot: &Snapshot,
        last_failed: Option<u32>,
        free: Places,
    ) -> Result<Option<Choice>, Refused> {
        let kept = snapshot.kept()?;
        let is_last = |place: &usize| {
            let origin = snapshot.origins().get(*place);
            origin.is_some_and(|origin| Some(origin.id) == last_failed)
        };
        let free = kept.places.and(free);
        if free.is_empty() {
            return Ok(None);
        }
        let failed = kept.places.iter().find(is_last);
        let others = free.without(failed.map_or(Places::NONE, |place| Places::NONE.with(place)));
        let place = match failed {
            // It is better than to wait for another one: there is none, or it is busy.
            _ if others.is_empty() => self.first.turn(snapshot, kept.mode, free),
            Some(_) => self.again.turn(snapshot, kept.mode, others),
            None => self.first.turn(snapshot, kept.mode, others),
        };
        place
            .map(|place| choice(snapshot, kept.mode, None, place))
            .transpose()
    }
}

/// HP-142: a pinned origin is used while it is enabled and not unhealthy.
fn follow(snapshot: &Snapshot, mode: Mode, pinned: Option<u32>) -> Option<Choice> {
    let pinned = pinned.filter(|_| snapshot.choosing().has_affinity)?;
    if mode == Mode::Single {
        return None;
    }
    let mut origins = snapshot.origins().iter().enumerate();
    let (place, origin) = origins.find(|(_, origin)| origin.id == pinned)?;
    let is_good = match origin.state {
        State::Healthy => !origin.is_held_out || is_kept(snapshot, place),
        State::Unknown => true,
        State::Unhealthy => false,
    };
    (is_good && snapshot.is_usable(place)).then_some(Choice {
        place,
        id: origin.id,
        mode: Mode::Affinity,
        set_affinity: false,
    })
}

fn is_kept(snapshot: &Snapshot, place: usize) -> bool {
    let kept = snapshot.kept();
    kept.is_ok_and(|kept| kept.places.contains(place))
}

fn choice(
    snapshot: &Snapshot,
    mode: Mode,
    pinned: Option<u32>,
    place: usize,
) -> Result<Choice, Refused> {
    let origin = snapshot.origins().get(place).ok_or(Refused::NoOrigin)?;
    let may_pin = match mode {
        // Its cookie is written only while it is not unhealthy (HP-104), and not again.
        Mode::Single => origin.state != State::Unhealthy && pinned != Some(origin.id),
        Mode::Normal | Mode::UnknownTier => true,
        Mode::Affinity | Mode::FailOpen | Mode::None => false,
    };
    Ok(Choice {
        place,
        id: origin.id,
        mode,
        set_affinity: may_pin && snapshot.choosing().has_affinity,
    })
}

/// One of these, drawn by weight.
fn drawn(snapshot: &Snapshot, places: Places, draw: f64) -> Option<usize> {
    let weight = |place: usize| {
        let origin = snapshot.origins().get(place);
        origin.map_or(0, |origin| step_weight(origin, Mode::Normal))
    };
    let sum: u64 = places.iter().map(weight).sum();
    #[allow(clippy::cast_sign_loss)] // A draw is not negative; one that were would be 0.
    let mut left = (draw * sum as f64) as u64;
    let mut last = None;
    for place in places.iter() {
        last = Some(place);
        match left.checked_sub(weight(place)) {
            None => break,
            Some(rest) => left = rest,
        }
    }
    last
}

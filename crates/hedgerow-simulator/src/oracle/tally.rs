//! How much happened.

use std::fmt;

/// Counts of one day, or of many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Events that publishers were told are kept.
    pub published: u64,
    pub requests: u64,
    /// Those of more than one event.
    pub batches: u64,
    /// Batches that came apart.
    pub divisions: u64,
    pub delivered: u64,
    pub dead_lettered: u64,
    pub dropped: u64,
    /// How often a store was opened.
    pub openings: u64,
    pub kills: u64,
    pub cuts: u64,
    pub stops: u64,
    pub failed_syncs: u64,
    /// Records of what holds a subscription.
    pub probations: u64,
    pub windows: u64,
    /// Replays of dead letters, and the events that they delivered again.
    pub replays: u64,
    pub replayed: u64,
    /// Subscriptions that were deleted, or whose time came, and what endpoints were told of that.
    pub departures: u64,
    pub notices: u64,
    /// How often endpoints were asked whether they want deliveries.
    pub handshakes: u64,
}

impl Tally {
    /// Adds those of another day.
    pub const fn add(&mut self, other: &Self) {
        self.published += other.published;
        self.requests += other.requests;
        self.batches += other.batches;
        self.divisions += other.divisions;
        self.delivered += other.delivered;
        self.dead_lettered += other.dead_lettered;
        self.dropped += other.dropped;
        self.openings += other.openings;
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.stops += other.stops;
        self.failed_syncs += other.failed_syncs;
        self.probations += other.probations;
        self.windows += other.windows;
        self.replays += other.replays;
        self.replayed += other.replayed;
        self.departures += other.departures;
        self.notices += other.notices;
        self.handshakes += other.handshakes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "events             {} accepted", self.published)?;
        writeln!(
            f,
            "deliveries         {} made, {} dead-lettered, {} dropped, in {} requests",
            self.delivered, self.dead_lettered, self.dropped, self.requests
        )?;
        writeln!(
            f,
            "batches            {} of more than one event, {} came apart",
            self.batches, self.divisions
        )?;
        writeln!(
            f,
            "stores opened      {}, after {} kills, {} power cuts, {} failed syncs, {} stops",
            self.openings, self.kills, self.cuts, self.failed_syncs, self.stops
        )?;
        writeln!(
            f,
            "holds              {} probations and {} windows were written down",
            self.probations, self.windows
        )?;
        writeln!(
            f,
            "replays            {} of dead letters, {} events delivered again",
            self.replays, self.replayed
        )?;
        writeln!(
            f,
            "subscriptions gone {}, {} endpoints were told",
            self.departures, self.notices
        )?;
        write!(f, "handshakes         {} tries", self.handshakes)
    }
}

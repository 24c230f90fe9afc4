//! Exchanges of one subscription's deliveries that are kept open after their timeout, because they may still succeed (ED-178). One
//! of a batch may deliver each of its events.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use foldhash::HashMap;
use hedgerow_core::time::Timestamp;
use tokio::task::AbortHandle;

use crate::runner::DueKey;

/// Notes of late exchanges that are kept beside those of open ones, so that looking through them is rare.
const ORDER_SLACK: usize = 64;

/// The number of the first event of a request, and which attempt it is.
pub(crate) type ExchangeId = (u64, u16);

/// All of them.
#[derive(Default)]
pub(crate) struct LateExchanges {
    open: HashMap<ExchangeId, LateExchange>,
    /// By delivery.
    deliveries: HashMap<u64, Late>,
    /// In the order in which they timed out; those that closed since are among them.
    order: VecDeque<ExchangeId>,
}

/// What one delivery waits for.
struct Late {
    exchanges: Vec<ExchangeId>,
    /// The row the delivery stands under now.
    row: Timestamp,
}

/// An exchange that is open after its timeout.
struct LateExchange {
    /// Deliveries that are not final.
    waiting: BTreeSet<u64>,
    /// Ends it.
    abort: AbortHandle,
    /// One of these exists for each open one.
    _counted: Arc<()>,
}

impl LateExchanges {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Notes where a delivery stands now in the view, for a late success.
    pub(crate) fn moved_to(&mut self, seq: u64, row: Timestamp) {
        if let Some(late) = self.deliveries.get_mut(&seq) {
            late.row = row;
        }
    }

    /// Keeps one open. Its deliveries stand under these rows now.
    pub(crate) fn keep_open(
        &mut self,
        id: ExchangeId,
        rows: &[DueKey],
        abort: AbortHandle,
        counted: Arc<()>,
    ) {
        for (row, seq) in rows {
            let late = self.deliveries.entry(*seq).or_insert_with(|| Late {
                exchanges: Vec::new(),
                row: *row,
            });
            late.row = *row;
            late.exchanges.push(id);
        }
        let exchange = LateExchange {
            waiting: rows.iter().map(|(_, seq)| *seq).collect(),
            abort,
            _counted: counted,
        };
        self.open.insert(id, exchange);
        self.order.push_back(id);
        if self.order.len() > 2 * self.open.len() + ORDER_SLACK {
            let open = &self.open;
            self.order.retain(|id| open.contains_key(id));
        }
    }

    /// A late exchange closed without a success, or is to be ended.
    pub(crate) fn close(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.open.remove(&id) {
            exchange.abort.abort();
            for seq in exchange.waiting {
                self.forget(seq, id);
            }
        }
    }

    /// Whether this exchange is open after its timeout.
    pub(crate) fn is_open(&self, id: ExchangeId) -> bool {
        self.open.contains_key(&id)
    }

    /// Ends the exchange that timed out first of those that are open.
    pub(crate) fn close_oldest(&mut self) {
        while let Some(id) = self.order.pop_front() {
            if self.is_open(id) {
                return self.close(id);
            }
        }
    }

    /// A late exchange succeeded: takes those of its deliveries that are not final and that it delivers, each with the row it
    /// stands under. Their other late exchanges are ended.
    pub(crate) fn take(&mut self, id: ExchangeId, delivers: impl Fn(u64) -> bool) -> Vec<DueKey> {
        // Its task goes on: it reads the rest of the answer.
        let Some(exchange) = self.open.remove(&id) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for seq in exchange.waiting {
            if !delivers(seq) {
                self.forget(seq, id);
            } else if let Some(row) = self.end_one(seq) {
                taken.push((row, seq));
            }
        }
        taken
    }

    /// The delivery is final: nobody waits for its late exchanges any more.
    pub(crate) fn end(&mut self, seq: u64) {
        self.end_one(seq);
    }

    /// The same; returns the row that it stands under, if it has late exchanges.
    fn end_one(&mut self, seq: u64) -> Option<Timestamp> {
        if self.deliveries.is_empty() {
            return None;
        }
        let late = self.deliveries.remove(&seq)?;
        for id in late.exchanges {
            let Some(exchange) = self.open.get_mut(&id) else {
                continue;
            };
            exchange.waiting.remove(&seq);
            if exchange.waiting.is_empty() {
                exchange.abort.abort();
                self.open.remove(&id);
            }
        }
        Some(late.row)
    }

    /// The delivery has nothing to expect of this exchange any more.
    fn forget(&mut self, seq: u64, id: ExchangeId) {
        if let Some(late) = self.deliveries.get_mut(&seq) {
            late.exchanges.retain(|of| *of != id);
            if late.exchanges.is_empty() {
                self.deliveries.remove(&seq);
            }
        }
    }

    /// Ends every one.
    pub(crate) fn end_all(&mut self) {
        self.order.clear();
        self.deliveries.clear();
        for (_, exchange) in self.open.drain() {
            exchange.abort.abort();
        }
    }
}

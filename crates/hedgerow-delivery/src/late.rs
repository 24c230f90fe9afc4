//! Exchanges of one subscription's deliveries that are kept open after their timeout, because they may still succeed (ED-178).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hedgerow_core::time::Timestamp;
use tokio::task::AbortHandle;

/// Notes of late exchanges that are kept beside those of open ones, so that looking through them is rare.
const ORDER_SLACK: usize = 64;

/// All of them.
#[derive(Default)]
pub(crate) struct LateExchanges {
    /// By delivery.
    deliveries: HashMap<u64, Late>,
    /// In the order in which they timed out; those that closed since are among them.
    order: VecDeque<(u64, u16)>,
    open: usize,
}

/// Those of one delivery.
struct Late {
    exchanges: Vec<LateExchange>,
    /// The row the delivery stands under now.
    row: Timestamp,
}

/// An exchange that is open after its timeout.
pub(crate) struct LateExchange {
    /// Which attempt it is.
    pub(crate) attempt: u16,
    /// Ends it.
    pub(crate) abort: AbortHandle,
    /// One of these exists for each open one.
    pub(crate) _counted: Arc<()>,
}

impl Late {
    fn is_open(&self, attempt: u16) -> bool {
        self.exchanges.iter().any(|open| open.attempt == attempt)
    }

    fn end(self) {
        self.exchanges
            .iter()
            .for_each(|exchange| exchange.abort.abort());
    }
}

impl LateExchanges {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// Notes where a delivery stands now in the view, for a late success.
    pub(crate) fn moved_to(&mut self, seq: u64, row: Timestamp) {
        if let Some(late) = self.deliveries.get_mut(&seq) {
            late.row = row;
        }
    }

    /// Keeps the exchange of an attempt that timed out open. `row` is where the delivery stands now.
    pub(crate) fn keep_open(&mut self, seq: u64, exchange: LateExchange, row: Timestamp) {
        self.order.push_back((seq, exchange.attempt));
        self.open += 1;
        let late = self.deliveries.entry(seq).or_insert_with(|| Late {
            exchanges: Vec::new(),
            row,
        });
        late.row = row;
        late.exchanges.push(exchange);
        if self.order.len() > 2 * self.open + ORDER_SLACK {
            let deliveries = &self.deliveries;
            self.order.retain(|(seq, attempt)| {
                deliveries
                    .get(seq)
                    .is_some_and(|late| late.is_open(*attempt))
            });
        }
    }

    /// A late exchange of the delivery closed without a success, or is to be ended.
    pub(crate) fn close(&mut self, seq: u64, attempt: u16) {
        let Some(late) = self.deliveries.get_mut(&seq) else {
            return;
        };
        let mut exchanges = late.exchanges.iter();
        let Some(at) = exchanges.position(|exchange| exchange.attempt == attempt) else {
            return;
        };
        late.exchanges.swap_remove(at).abort.abort();
        self.open -= 1;
        if late.exchanges.is_empty() {
            self.deliveries.remove(&seq);
        }
    }

    /// Whether this exchange is open after its timeout.
    pub(crate) fn is_open(&self, seq: u64, attempt: u16) -> bool {
        let late = self.deliveries.get(&seq);
        late.is_some_and(|late| late.is_open(attempt))
    }

    /// Ends the exchange that timed out first of those that are open.
    pub(crate) fn close_oldest(&mut self) {
        while let Some((seq, attempt)) = self.order.pop_front() {
            if self.is_open(seq, attempt) {
                return self.close(seq, attempt);
            }
        }
    }

    /// A late exchange succeeded: returns the row that its delivery stands under. Its other late exchanges are ended.
    pub(crate) fn take(&mut self, seq: u64, attempt: u16) -> Option<Timestamp> {
        let late = self.deliveries.remove(&seq)?;
        self.open -= late.exchanges.len();
        let others = late.exchanges.iter();
        others
            .filter(|exchange| exchange.attempt != attempt)
            .for_each(|exchange| exchange.abort.abort());
        Some(late.row)
    }

    /// The delivery is final: nobody waits for its late exchanges any more.
    pub(crate) fn end(&mut self, seq: u64) {
        if let Some(late) = self.deliveries.remove(&seq) {
            self.open -= late.exchanges.len();
            late.end();
        }
    }

    /// Ends every one.
    pub(crate) fn end_all(&mut self) {
        self.open = 0;
        self.order.clear();
        self.deliveries.drain().for_each(|(_, late)| late.end());
    }
}

//! What the bytes are that a probe reads (HP-011, HP-042 to HP-048): a strict reader of one HTTP/1 response, which keeps a
//! head and counts a body. It is fed what comes and says when it has seen enough.

mod body;
mod head;

use self::body::Body;
use self::head::{EndSearch, Framing, Head};
use crate::limits;
use crate::outcome::{BodyEnd, Demands, Met, Reason, Response};
use crate::settings::Method;
use crate::statuses::Statuses;

/// Reads one response.
#[derive(Debug, Clone)]
pub struct ResponseReader {
    method: Method,
    head_bytes_max: usize,
    /// The statuses whose bodies are read.
    expected: Statuses,
    /// Of the head that comes, as far as it has come.
    head: Vec<u8>,
    search: EndSearch,
    interim: u8,
    /// The final head, once it was read.
    response: Option<Response>,
    body: Body,
}

impl ResponseReader {
    /// A reader of the response to a request with this method. Of `demands` the longest head counts, and which statuses are
    /// expected.
    #[must_use]
    pub fn new(method: Method, demands: &Demands) -> Self {
        Self {
            method,
            head_bytes_max: demands.head_bytes_max as usize,
            expected: demands.expected,
            head: Vec::new(),
            search: EndSearch::default(),
            interim: 0,
            response: None,
            body: Body::none(),
        }
    }

    /// Takes bytes that came. Returns what was met once that is certain; bytes behind it do not matter (HP-047).
    pub fn feed(&mut self, bytes: &[u8]) -> Option<Met> {
        let mut rest = bytes;
        while self.response.is_none() {
            let (met, left) = self.feed_head(rest)?;
            if let Err(reason) = met {
                return Some(Met::Failure(reason));
            }
            rest = left;
        }
        let end = self.body.feed(rest)?;
        Some(self.ended(end))
    }

    /// No more bytes come: the connection was closed in order, or broke (`is_clean` false).
    pub fn end(&mut self, is_clean: bool) -> Met {
        if self.response.is_none() {
            return Met::Failure(Reason::ConnectionReset);
        }
        let end = self.body.end(is_clean);
        self.ended(end)
    }

    fn ended(&self, body: BodyEnd) -> Met {
        let response = self.response.unwrap_or(Response::complete(0));
        Met::Response(Response { body, ..response })
    }

    /// `None` when more bytes are needed; otherwise the bytes behind the head, or what is wrong with it.
    fn feed_head<'b>(&mut self, bytes: &'b [u8]) -> Option<(Result<(), Reason>, &'b [u8])> {
        let before = self.head.len();
        self.head
            .extend_from_slice(bytes.get(..self.room()).unwrap_or(bytes));
        // First, so that a head that is both wrong and too long is the same in whatever pieces it comes.
        if let Err(reason) = head::begins_well(&self.head) {
            return Some((Err(reason), &[]));
        }
        let Some(length) = self.search.end(&self.head) else {
            let is_full = self.head.len() > self.head_bytes_max;
            return is_full.then_some((Err(Reason::HeaderTooLarge), &[]));
        };
        let left = bytes
            .get(length.saturating_sub(before)..)
            .unwrap_or_default();
        if length > self.head_bytes_max {
            return Some((Err(Reason::HeaderTooLarge), &[]));
        }
        let head = Head::read(self.head.get(..length).unwrap_or_default());
        self.head.clear();
        self.search = EndSearch::default();
        let taken = head.and_then(|head| self.take_head(&head, length));
        Some((taken, left))
    }

    /// How many bytes of a head are taken more: one above the limit shows that it is too long.
    const fn room(&self) -> usize {
        (self.head_bytes_max + 1).saturating_sub(self.head.len())
    }

    fn take_head(&mut self, head: &Head, length: usize) -> Result<(), Reason> {
        if head.status < 200 && head.status != 101 {
            self.interim = self.interim.saturating_add(1);
            if self.interim > limits::INTERIM_RESPONSES_MAX {
                return Err(Reason::MalformedResponse);
            }
            return Ok(());
        }
        self.response = Some(Response {
            status: head.status,
            head_bytes: u32::try_from(length).unwrap_or(u32::MAX),
            interim: self.interim,
            body: BodyEnd::Complete,
            drains: head.drains,
        });
        // The body of a status that is a failure changes nothing (HP-040); these two have none.
        let has_body = self.method == Method::Get
            && self.expected.contains(head.status)
            && !matches!(head.status, 204 | 304);
        self.body = match head.framing {
            _ if !has_body => Body::none(),
            Framing::Length(length) => Body::of_length(length),
            Framing::Chunked => Body::chunked(),
            Framing::UntilClose => Body::until_close(),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;

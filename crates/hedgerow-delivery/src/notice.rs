//! Events that tell of dead letters that were written (ED-263), and what keeps them from going round in a circle (ED-264).
//!
//! A notice that cannot be delivered is itself given up some time, and may be written to a dead-letter container, which another
//! notice tells of. So each notice carries all containers that what it tells of has been through: it is never written to one of
//! those, and every chain of notices about notices ends.

use std::collections::BTreeSet;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::time::Timestamp;
use serde_json::json;

/// The name under which the extensions carry the containers that a notice has been through, as a JSON list. No attribute can
/// have this name.
const CONTAINERS: &str = ":dead-letter-containers";

/// A blob that was written.
pub(crate) struct WrittenBlob {
    pub(crate) container: String,
    /// Its name in the container.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) bytes: usize,
    /// Events in it.
    pub(crate) count: usize,
    /// Whose dead letters.
    pub(crate) subscription: String,
    /// Containers that notices in it have been through.
    pub(crate) been_through: BTreeSet<String>,
}

const SUBJECT: &str = "/blobServices/default/containers/";
const BLOBS: &str = "/blobs/";

/// The event that tells of a blob (ED-263).
pub(crate) fn notice(blob: &WrittenBlob, id: String, now: Timestamp) -> Event<'static> {
    let data = json!({
        "api": "PutBlob",
        "contentType": "application/json",
        "contentLength": blob.bytes,
        "blobType": "BlockBlob",
        "url": blob.url,
        "subscription": blob.subscription,
        "count": blob.count,
    });
    let mut been_through = blob.been_through.clone();
    been_through.insert(blob.container.clone());
    let extensions = vec![(CONTAINERS.into(), json!(been_through).to_string().into())];
    Event {
        id: id.into(),
        source: None,
        event_type: "Microsoft.Storage.BlobCreated".into(),
        subject: Some(format!("{SUBJECT}{}{BLOBS}{}", blob.container, blob.name).into()),
        time: Some(now.to_string().into()),
        data_version: Some("".into()),
        data_content_type: None,
        data_schema: None,
        extensions,
        data: Data::Json(data.to_string().into()),
    }
}

/// The containers that a notice has been through. One that was replayed has but the one that it tells of.
pub(crate) fn containers_of(event: &Event<'_>) -> BTreeSet<String> {
    let mut carried = event.extensions.iter();
    let carried = carried.find(|(name, _)| name == CONTAINERS);
    if let Some(list) = carried.and_then(|(_, json)| serde_json::from_str(json).ok()) {
        return list;
    }
    let subject = event.subject.as_deref().unwrap_or_default();
    let told = subject.strip_prefix(SUBJECT);
    let container = told.and_then(|rest| rest.rsplit_once(BLOBS));
    container
        .map(|(container, _)| container.to_owned())
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(been_through: &[&str]) -> WrittenBlob {
        WrittenBlob {
            container: "orders/late".to_owned(),
            name: "MY-SUB/2019/8/8/5/1b4e28ba-2fa1-11d2-883f-0016d3cca427.json".to_owned(),
            url: "file:///letters/orders/late/MY-SUB/2019/8/8/5/x.json".to_owned(),
            bytes: 613,
            count: 2,
            subscription: "my-sub".to_owned(),
            been_through: been_through.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// ED-263: the whole event.
    #[test]
    fn a_notice_is_the_vendors_event() {
        let now = Timestamp::from_millis(1_565_240_400_000);
        let event = notice(&blob(&[]), "1".to_owned(), now);
        assert_eq!(event.event_type, "Microsoft.Storage.BlobCreated");
        assert_eq!(
            event.subject.as_deref(),
            Some(
                "/blobServices/default/containers/orders/late/blobs/MY-SUB/2019/8/8/5/1b4e28ba-2fa1-11d2-883f-0016d3cca427.json"
            )
        );
        assert_eq!(event.time.as_deref(), Some("2019-08-08T05:00:00.0000000Z"));
        let Data::Json(data) = &event.data else {
            panic!("data is JSON")
        };
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(
            data,
            json!({
                "api": "PutBlob", "contentType": "application/json", "contentLength": 613,
                "blobType": "BlockBlob", "url": "file:///letters/orders/late/MY-SUB/2019/8/8/5/x.json",
                "subscription": "my-sub", "count": 2,
            })
        );
    }

    /// ED-264: what a notice has been through is not forgotten by the next one.
    #[test]
    fn a_notice_carries_the_containers_of_the_ones_before() {
        let of = |been_through: &[&str]| {
            let event = notice(&blob(been_through), "1".to_owned(), Timestamp::ZERO);
            containers_of(&event).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), ["orders/late"]);
        assert_eq!(of(&["a", "z/y"]), ["a", "orders/late", "z/y"]);
        let mut replayed = notice(&blob(&["a"]), "1".to_owned(), Timestamp::ZERO);
        replayed.extensions.clear();
        assert_eq!(containers_of(&replayed), ["orders/late".to_owned()].into());
        replayed.subject = Some("/orders/1".into());
        assert!(containers_of(&replayed).is_empty());
    }
}

//! Behaviour 1: what a probe is on the wire.

use std::sync::Arc;

use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::SystemClock;
use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::{Group, GroupSettings, OriginSettings};
use hedgerow_origin::window::State;
use hedgerow_prober::{Options, Prober};
use tokio::io::AsyncWriteExt;

use crate::server::{OK, Server, connector, until};

fn origin(name: &str, server: &Server) -> OriginSettings {
    OriginSettings {
        http_port: server.address.port().into(),
        ..OriginSettings::new(name, "127.0.0.1")
    }
}

fn group(origins: Vec<OriginSettings>) -> Arc<Group> {
    let settings = GroupSettings {
        origins,
        ..GroupSettings::default()
    };
    Arc::new(Group::new(settings).unwrap())
}

/// HP-010 to HP-022: a probe is a request of a connection of its own, which is closed behind it.
#[tokio::test]
async fn each_probe_is_one_request_on_a_new_connection() {
    let server = Server::answering(|mut stream, _| async move {
        stream.write_all(OK).await.unwrap();
    })
    .await;
    let clock = Arc::new(SystemClock::new(Timestamp::ZERO));
    let (prober, handle) = Prober::new(connector(), clock, Arc::new(()), Options::default());
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(prober.run(async move { stopped.notified().await }));
    handle
        .set(
            "web",
            group(vec![origin("a", &server), origin("b", &server)]),
        )
        .await;
    let live = handle.group("web").unwrap();
    let mut reader = live.reader();
    until("a healthy origin", async || {
        let current = reader.current();
        let origins = current.snapshot.origins();
        origins
            .iter()
            .all(|view| view.state == State::Healthy)
            .then_some(())
    })
    .await;
    let choice = Selector::new().select(&reader.current().snapshot, None);
    assert_eq!(choice.unwrap().place, 0);
    assert_eq!(server.heads().len(), server.accepted());
    let port = server.address.port();
    assert_eq!(
        server.heads()[0],
        format!(
            "HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: Edge Health Probe\r\nX-FD-HealthProbe: 1\r\n\
             Accept: */*\r\nConnection: close\r\n\r\n"
        )
    );
    handle.remove("web").await;
    assert!(live.is_gone());
    assert!(handle.group("web").is_none());
    stop.notify_one();
    running.await.unwrap();
}

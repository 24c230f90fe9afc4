//! Names of origins whose resolver is away (HP-025).

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hedgerow_io::http::{Connect, ConnectError, ConnectorOptions, GuardedConnector, Lookup};
use tokio::net::TcpListener;

use crate::server::target;

/// What the resolver says next, and how often it was asked.
#[derive(Debug, Default)]
struct Script {
    answers: Vec<Option<SocketAddr>>,
    asked: usize,
}

fn connector(
    lookup: impl Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
) -> GuardedConnector {
    GuardedConnector::new(ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        lookup: Some(Lookup::new(move |_, _| lookup())),
        ..ConnectorOptions::default()
    })
}

/// HP-025: an answer is asked for again after a second, and used for 300 s more while there is no newer one.
#[tokio::test]
async fn addresses_are_kept_for_300_s() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(Mutex::new(Script::default()));
    let asked = Arc::clone(&script);
    let connector = connector(move || {
        let mut script = asked.lock().unwrap();
        script.asked += 1;
        let answer = script.answers.pop().flatten();
        answer.map_or_else(|| Err(io::Error::other("away")), |answer| Ok(vec![answer]))
    });
    script.lock().unwrap().answers.push(Some(address));
    let plain = target(&format!("http://a.example:{}/", address.port()));
    let kept = plain.clone().with_kept_names();
    assert_ne!(plain, kept, "they share no connections");
    assert_eq!(plain.endpoint(), kept.endpoint());
    connector.connect(&kept).await.unwrap();
    tokio::time::pause();
    for (passes, is_asked, is_used) in [(0, false, true), (2, true, true), (298, true, true)] {
        let before = script.lock().unwrap().asked;
        tokio::time::advance(Duration::from_secs(passes)).await;
        assert_eq!(connector.connect(&kept).await.is_ok(), is_used, "{passes}");
        let asked = script.lock().unwrap().asked > before;
        assert_eq!(asked, is_asked, "{passes}");
    }
    let refused = connector.connect(&plain).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Resolution(_)));
    tokio::time::advance(Duration::from_secs(2)).await;
    let refused = connector.connect(&kept).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Resolution(_)));
}

/// HP-025: a resolver that hangs is away too; what it says at last is used by the next.
#[tokio::test]
async fn a_resolver_that_hangs_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, answers) = mpsc::channel();
    let answers = Mutex::new(answers);
    let connector = connector(move || {
        let answer = answers.lock().unwrap().recv();
        answer.map_err(io::Error::other)
    });
    let kept = target(&format!("http://a.example:{}/", address.port())).with_kept_names();
    answer.send(vec![address]).unwrap();
    connector.connect(&kept).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    // Nothing is said to this one.
    connector.connect(&kept).await.unwrap();
    drop(answer);
}

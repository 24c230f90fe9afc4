//! A store that another server took over: the engine and the grid stop with what a person has to do, and do not open it
//! again (design D8).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::spec::TopicSpec;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::grid::{Grid, GridOptions, GridState};
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_io::http::scripted::ScriptedNetwork;
use hedgerow_io::http::{AddressGuard, Client, ClientOptions, ConnectError};
use hedgerow_store::StoreError;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::history::HistoryOptions;
use hedgerow_store::log::{Log, LogOptions};
use serde_json::json;
use tokio::sync::watch;

use crate::world::{Meet, World};

/// Nothing of the former owner is sent or stored once it knows.
#[tokio::test(start_paused = true)]
async fn an_engine_whose_store_was_taken_over_stops() {
    let mut world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    assert_eq!(world.seen().len(), 1);
    let _owner = world.take_over();
    let ended = world.ended().await;
    assert!(matches!(ended, Err(StoreError::Fenced { .. })), "{ended:?}");
    world.sleep_until(Duration::from_secs(3600)).await;
    assert_eq!(world.seen().len(), 1);
}

fn options(data: &Path) -> GridOptions {
    let log = LogOptions {
        segment_bytes: 64 * 1024,
        zeroed_segments: 0,
        ..LogOptions::default()
    };
    let engine = EngineSettings {
        checkpoint_interval: Duration::from_millis(5),
        ..EngineSettings::default()
    };
    GridOptions {
        speed: std::num::NonZeroU32::MIN,
        dead_letters: data.join("dead-letters"),
        data: data.to_owned(),
        key_file: None,
        log,
        history: HistoryOptions::default(),
        terminal_records_max: 100,
        engine,
    }
}

/// The lock was lost: while the grid serves, the directory is opened by another server. The grid notices when it writes
/// its view down, and ends.
#[tokio::test]
async fn a_grid_whose_directory_was_taken_over_ends() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let network = ScriptedNetwork::new(Arc::new(|_, _| {
        Err(ConnectError::Connect(std::io::Error::other("nobody")))
    }));
    let client = Client::new(Arc::new(network), ClientOptions::default());
    let grid = Grid::new(
        options(&data),
        Arc::new(client),
        Arc::new(AddressGuard::new([])),
        tokio::runtime::Handle::current(),
    );
    let (state, mut states) = watch::channel(GridState::Opening);
    let (_stop, stopped) = watch::channel(false);
    let running = tokio::task::spawn_blocking(move || grid.run(&state, &stopped));
    let handle = loop {
        if let GridState::Serving(handle) = &*states.borrow_and_update() {
            break handle.clone();
        }
        states.changed().await.unwrap();
    };

    // A copy is opened, which raises its epoch, and its super blocks are put in place.
    let copy = folder.path().join("copy");
    std::fs::create_dir_all(copy.join("log")).unwrap();
    for name in ["SUPER.a", "SUPER.b"] {
        std::fs::copy(data.join(name), copy.join(name)).unwrap();
    }
    let disk = Arc::new(RealDisk::new(&copy).unwrap());
    let log = LogOptions {
        zeroed_segments: 0,
        ..LogOptions::default()
    };
    drop(Log::open(disk, log, Arc::new(|| unreachable!("nothing is written"))).unwrap());
    for name in ["SUPER.a", "SUPER.b"] {
        std::fs::copy(copy.join(name), data.join(name)).unwrap();
    }

    let (name, spec) = ("orders".parse().unwrap(), TopicSpec::default());
    // The answer may come before the grid notices, or not at all.
    let _ = handle
        .ask(|answer| Command::PutTopic { name, spec, answer })
        .await;
    let error = running.await.unwrap().expect_err("it was taken over");
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    assert!(matches!(&*states.borrow(), GridState::Stopped));
    assert!(!data.join("catalog").exists(), "nothing was written down");
}

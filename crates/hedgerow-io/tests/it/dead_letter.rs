//! Dead letters in a directory (ED-243, ED-252, ED-319).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_core::dead_letter::Span;
use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{
    Blob, BlobQuery, DeadLetterStore, FoundBlob, LocalDirectory, Reserve,
};

const NAME: &str = "MY-SUB/2030/1/2/3/1b4e28ba-2fa1-11d2-883f-0016d3cca427.json";

fn blob(container: &str) -> Blob {
    Blob {
        container: ContainerPath::parse(container).unwrap(),
        name: NAME.to_owned(),
        bytes: b"[{\"id\":\"1\"}]".to_vec(),
        subscription: "my-sub".to_owned(),
        topic: "orders".to_owned(),
        count: 1,
    }
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_blob_is_a_file_and_nothing_is_left_beside_it() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("a/b")).unwrap();
    let store = LocalDirectory::new(root.path().to_owned());
    store.write(blob("a/b")).await.unwrap();
    let path = root.path().join("a/b").join(NAME);
    assert_eq!(std::fs::read(&path).unwrap(), blob("a/b").bytes);
    assert_eq!(files(root.path()), [path.display().to_string()]);
    store
        .probe(ContainerPath::parse("a/b").unwrap())
        .await
        .unwrap();
    assert_eq!(files(root.path()).len(), 1, "a probe leaves nothing");
}

/// ED-247: what is missing is said; it is never made.
#[tokio::test]
async fn a_missing_container_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let store = LocalDirectory::new(root.path().to_owned());
    let container = ContainerPath::parse("gone").unwrap();
    for answered in [
        store.write(blob("gone")).await,
        store.probe(container).await,
    ] {
        let error = answered.unwrap_err();
        assert!(error.is_not_found);
        assert!(error.message.contains("gone does not exist"), "{error}");
    }
    assert!(!root.path().join("gone").exists());
}

#[tokio::test]
async fn what_stands_in_the_way_is_no_missing_container() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("c")).unwrap();
    std::fs::write(root.path().join("c/MY-SUB"), "a file").unwrap();
    let store = LocalDirectory::new(root.path().to_owned());
    let error = store.write(blob("c")).await.unwrap_err();
    assert!(!error.is_not_found, "{error}");
    assert_eq!(files(root.path()).len(), 1);
}

/// D6: on the disk of the reserve nothing is written that would take of it.
#[tokio::test]
async fn a_blob_leaves_the_reserve() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("c")).unwrap();
    let free = Arc::new(AtomicU64::new(1 << 20));
    let said = Arc::clone(&free);
    let store = LocalDirectory::new(root.path().to_owned()).leaving(Reserve {
        directory: root.path().to_owned(),
        bytes: 1 << 20,
        free_bytes: Arc::new(move || Ok(said.load(Ordering::Relaxed))),
    });
    let container = ContainerPath::parse("c").unwrap();
    for answered in [
        store.has_room(container.clone()).await,
        store.write(blob("c")).await,
    ] {
        let error = answered.unwrap_err();
        assert!(error.is_full && !error.is_not_found, "{error}");
        assert!(error.message.contains("1048576 are kept"), "{error}");
    }
    assert!(files(root.path()).is_empty());
    free.store(2 << 20, Ordering::Relaxed);
    store.has_room(container).await.unwrap();
    let mut large = blob("c");
    large.bytes = vec![b' '; 1 << 20];
    assert!(store.write(large).await.unwrap_err().is_full);
    store.write(blob("c")).await.unwrap();
    assert_eq!(files(root.path()).len(), 1);
}

/// ED-249, ED-265: blobs come in the order of time, page by page, each once; what is of others, or none of ours, does not.
#[tokio::test]
async fn blobs_are_listed_in_the_order_of_time() {
    let root = tempfile::tempdir().unwrap();
    let uuid = |number: u8| format!("{number:08x}-2fa1-81d2-883f-0016d3cca427");
    let hours = [
        "2029/12/31/23",
        "2030/2/1/0",
        "2030/10/1/0",
        "2030/10/1/2",
        "2030/10/1/10",
    ];
    let mut expected = Vec::new();
    for hour in hours {
        for number in [1, 2] {
            expected.push(format!("MY-SUB/{hour}/{}.json", uuid(number)));
        }
    }
    let others = [
        format!("OTHER/2030/2/1/0/{}.json", uuid(1)),
        format!("MY-SUB/2030/02/1/0/{}.json", uuid(3)),
        format!("MY-SUB/2030/2/1/24/{}.json", uuid(3)),
        format!("MY-SUB/2030/2/1/0/{}.txt", uuid(3)),
        "MY-SUB/2030/2/1/0/.probe-1".to_owned(),
        "MY-SUB/notes.json".to_owned(),
    ];
    for name in expected.iter().chain(&others) {
        let path = root.path().join("late").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "[]").unwrap();
    }
    let store = LocalDirectory::new(root.path().to_owned());
    let container = ContainerPath::parse("late").unwrap();
    let query = |after: Option<&String>, span, limit| BlobQuery {
        container: container.clone(),
        subscription: "my-sub".to_owned(),
        after: after.cloned(),
        span,
        limit,
    };
    let names = |found: Vec<FoundBlob>| found.into_iter().map(|blob| blob.name);
    for limit in [1, 3, 100] {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let page = store
                .list(query(listed.last(), Span::default(), limit))
                .await;
            let page = page.unwrap();
            assert!(page.len() <= limit && page.iter().all(|blob| blob.bytes == 2));
            if page.is_empty() {
                break;
            }
            listed.extend(names(page));
        }
        assert_eq!(listed, expected, "{limit} at a time");
    }
    let span = Span {
        from: Some("2030-02-01T00:59:59Z".parse().unwrap()),
        to: Some("2030-10-01T02:00:00Z".parse().unwrap()),
    };
    let listed = store.list(query(None, span, 100)).await.unwrap();
    assert_eq!(names(listed).collect::<Vec<_>>(), expected[2..6]);

    let content = store.read(container.clone(), expected[0].clone()).await;
    assert_eq!(&content.unwrap()[..], b"[]");
    let gone = format!("MY-SUB/2030/2/1/0/{}.json", uuid(9));
    let refused = store.read(container.clone(), gone).await.unwrap_err();
    assert!(refused.is_not_found, "{refused}");
    let large = root.path().join("late").join(&expected[0]);
    let file = std::fs::File::create(large).unwrap();
    file.set_len(9 << 20).unwrap();
    let refused = store
        .read(container.clone(), expected[0].clone())
        .await
        .unwrap_err();
    assert!(refused.message.contains("9437184 bytes"), "{refused}");

    let nobody = BlobQuery {
        subscription: "nobody".to_owned(),
        ..query(None, Span::default(), 10)
    };
    assert_eq!(store.list(nobody).await.unwrap(), []);
    let missing = BlobQuery {
        container: ContainerPath::parse("gone").unwrap(),
        ..query(None, Span::default(), 10)
    };
    assert!(store.list(missing).await.unwrap_err().is_not_found);
}

//! `hedgerow origin-group`, `route` and `probe` against a real server with real origins.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crate::kit::{Place, Server, complained, hedgerow, json, printed, until};

/// A server that answers 200 to everything, and can be killed and come back at its place.
struct Origin {
    address: SocketAddr,
    running: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = Some(accept(listener));
        Self { address, running }
    }

    fn kill(&mut self) {
        if let Some((stop, running)) = self.running.take() {
            stop.store(true, Ordering::SeqCst);
            // It is woken to see that; the listener is closed when the thread is gone.
            drop(TcpStream::connect(self.address));
            running.join().unwrap();
        }
    }

    fn revive(&mut self) {
        // Connections that just ended keep the place for a moment on some systems.
        let listener = until("the origin's place", || {
            TcpListener::bind(self.address).ok()
        });
        self.running = Some(accept(listener));
    }
}

fn accept(listener: TcpListener) -> (Arc<AtomicBool>, JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let running = std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stopped.load(Ordering::SeqCst) {
                return;
            }
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer);
        }
    });
    (stop, running)
}

/// A grid file with a group of these origins, judged by the newest probe, and a route.
fn grid(place: &Place, origins: &[Origin]) -> String {
    let mut text = "[[originGroups]]\nname = \"shop\"\nprobe = { interval_s = 5, timeout_s = 1 }\n\
        load_balancing = { sample_size = 1, successful_samples_required = 1 }\n"
        .to_owned();
    let declared = ["a", "b", "c"].into_iter().zip(origins);
    text.extend(declared.map(|(name, origin)| {
        let port = origin.address.port();
        format!(
            "[[originGroups.origins]]\nname = \"{name}\"\nhost = \"127.0.0.1\"\nhttp_port = {port}\n"
        )
    }));
    text.push_str(
        "[[routes]]\nname = \"all\"\nhosts = [\"shop.example\"]\norigin_group = \"shop\"\n",
    );
    std::fs::write(place.path("grid.toml"), text).unwrap();
    place.text("grid.toml")
}

/// Lines of a command that goes on.
fn following(server: &Server, arguments: &[&str]) -> (Child, Receiver<String>) {
    let mut command = hedgerow(arguments);
    command.args(["--server", server.endpoint(), "--token", server.token()]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (line, lines) = channel();
    std::thread::spawn(move || {
        for text in stdout.lines().map_while(Result::ok) {
            let _ = line.send(text);
        }
    });
    (child, lines)
}

/// Issue 7, acceptance 2: three origins and a route from a file; one is killed, restored, another one disabled: `show` tells it
/// as it happens. FC-24: with the reason of the last probe.
#[test]
fn the_story_of_a_group() {
    let place = Place::new();
    let mut origins = [Origin::start(), Origin::start(), Origin::start()];
    let file = grid(&place, &origins);
    let (config, ready_file) = (place.config(""), place.text("ready.json"));
    let command = hedgerow(&[
        "serve",
        "--config",
        &config,
        "--ready-file",
        &ready_file,
        "--apply",
        &file,
    ]);
    let server = Server::start(command, &place.path("ready.json"));
    let show = || printed(&server.run(&["origin-group", "show", "shop"]));
    let until_told = |what: &str| until(what, || Some(show()).filter(|shown| shown.contains(what)));
    let shown = until_told("origin group shop: 3 of 3 origins healthy");
    assert!(shown.contains("used by    route all"), "{shown}");
    assert!(
        shown.contains("HEAD / over http, every 5 s, at most 1 s; 1 of 1 have to be good"),
        "{shown}"
    );
    assert!(
        shown.contains("6 s at worst until a failing origin is out"),
        "{shown}"
    );
    let (mut child, lines) = following(&server, &["origin-group", "show", "shop", "--follow"]);
    let next = |what: &str| {
        until(what, || {
            lines.try_recv().ok().filter(|line| line.ends_with(what))
        })
    };
    next("a: unknown -> healthy (1 of 1 good, 1 of 1 needed)");
    origins[1].kill();
    next("b: healthy -> unhealthy: connect_refused (0 of 1 good, 1 of 1 needed)");
    let shown = until_told("2 of 3 origins healthy");
    let row = shown.lines().find(|line| line.starts_with("b ")).unwrap();
    assert!(
        row.contains("unhealthy") && row.contains("connect_refused"),
        "{shown}"
    );
    origins[1].revive();
    next("b: unhealthy -> healthy (1 of 1 good, 1 of 1 needed)");
    let updated =
        printed(&server.run(&["origin-group", "update", "shop", "--disable-origin", "c"]));
    assert!(
        updated.starts_with("origin group shop changed: 3 origins"),
        "{updated}"
    );
    next("c: disabled");
    let shown = until_told("2 of 2 origins healthy");
    let row = shown.lines().find(|line| line.starts_with("c ")).unwrap();
    assert!(row.contains("disabled"), "{shown}");
    child.kill().unwrap();
    child.wait().unwrap();
    // FC-23.
    origins.iter_mut().for_each(Origin::kill);
    until_told("origin group shop: all unhealthy, failing open");
}

#[test]
fn groups_are_created_shown_changed_and_deleted() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let origin = Origin::start();
    let at = format!("a={},weight=10", origin.address);
    let create = |more: &[&str]| {
        server.run(&[&["origin-group", "create", "shop", "--origin", &at], more].concat())
    };
    let wrong = complained(
        &create(&["--probe-interval-in-seconds", "4", "--fail-open", "some"]),
        1,
    );
    assert!(
        wrong.contains("probe.interval_s must be 5 to 255, and is 4 [interval_out_of_range]"),
        "{wrong}"
    );
    assert!(wrong.contains("fail_open must be"), "{wrong}");
    let dry = printed(&create(&["--dry-run"]));
    assert_eq!(
        dry,
        "origin group shop would be created: 1 origins, up to 0.5 probes a minute to each\n"
    );
    let created = printed(&create(&["--probe-path", "/up?x=1", "--set", "ramp_s=60"]));
    assert!(
        created.starts_with("origin group shop created: "),
        "{created}"
    );
    let again = printed(&create(&[]));
    assert!(
        again.starts_with("origin group shop is as it was: "),
        "{again}"
    );
    let shown = json(&server, &["origin-group", "show", "shop"]);
    let group = &shown["group"];
    assert_eq!(
        (&group["ramp_s"], &group["probe"]["path"]),
        (&60.into(), &"/up?x=1".into())
    );
    assert_eq!(group["origins"][0]["weight"], 10);
    assert_eq!(group["origins"][0]["http_port"], origin.address.port());
    let list = printed(&server.run(&["origin-group", "list"]));
    assert!(
        list.lines()
            .nth(1)
            .unwrap()
            .starts_with("shop  http      /up?x=1  30          a "),
        "{list}"
    );
    let route = |more: &[&str]| server.run(&[&["route", "create", "all"], more].concat());
    let made = route(&[
        "--hosts",
        "shop.example",
        "--origin-group",
        "SHOP",
        "--https-redirect",
    ]);
    assert_eq!(printed(&made), "route all created, to origin group shop\n");
    let changed = printed(&server.run(&[
        "route",
        "update",
        "all",
        "--patterns-to-match",
        "/a",
        "/a/*",
    ]));
    assert_eq!(changed, "route all changed, to origin group shop\n");
    let shown = json(&server, &["route", "show", "all"]);
    assert_eq!(
        (&shown["https_redirect"], &shown["paths"][1]),
        (&308.into(), &"/a/*".into())
    );
    let kept = complained(&server.run(&["origin-group", "delete", "shop"]), 1);
    assert!(kept.contains("is used by route all"), "{kept}");
    assert!(printed(&server.run(&["route", "list"])).contains("shop.example"));
    printed(&server.run(&["route", "delete", "all"]));
    printed(&server.run(&["origin-group", "delete", "shop"]));
    complained(&server.run(&["origin-group", "show", "shop"]), 1);
}

/// HP-085, HP-088: the figures of a group; and one probe now, with its parts.
#[test]
fn probes_by_hand() {
    let place = Place::new();
    let server = Server::serve(&place, "[probes]\nregion = \"west\"\n");
    let origin = Origin::start();
    let url = format!("http://{}/up", origin.address);
    let checked = printed(&server.run(&["probe", "check", &url, "--method", "GET"]));
    assert!(
        checked.starts_with(&format!(
            "GET {url}\n  result      success\n  status      200\n"
        )),
        "{checked}"
    );
    assert!(
        checked.contains("\n  connect     ") && checked.contains("DNS         -"),
        "{checked}"
    );
    let at = format!("a={}", origin.address);
    let dead = "b=127.0.0.1:1".to_owned();
    let create = [
        "origin-group",
        "create",
        "shop",
        "--probe-interval-in-seconds",
        "5",
        "--origin",
        &at,
        "--origin",
        &dead,
    ];
    printed(&server.run(&create));
    let output = server.run(&["probe", "check", "--group", "shop"]);
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        told.contains("b: HEAD http://127.0.0.1:1/\n  result      connect_refused"),
        "{told}"
    );
    assert!(complained(&output, 1).contains("1 of 2 probes failed"));
    printed(&server.run(&["probe", "check", "--group", "shop", "--origin", "a"]));
    let output = server.run(&["probe", "estimate", "shop", "--nodes", "6"]);
    let told = printed(&output);
    assert!(
        told.lines()
            .nth(1)
            .unwrap()
            .starts_with("a       6      0           72"),
        "{told}"
    );
    let warned = complained(&output, 0);
    assert!(
        warned.contains("gets 72 probes a minute, more than 60"),
        "{warned}"
    );
}

//! Every outbound connection goes through one guarded connector, which judges the address that is actually connected to
//! (design D11). So nothing else may open a socket, look up a name or bring an HTTP client.

use crate::tidy::Findings;
use crate::tidy::source::{has_word, uses, words};
use crate::tidy::tree::Tree;

/// The guarded connector and its client, and the CLI's own client, which only talks to its server: a file, or a folder
/// that ends with `/`. And the streams of clients that the edge is given: it names them, and opens none.
const GUARDED: [&str; 8] = [
    "crates/hedgerow-io/src/http/channel.rs",
    "crates/hedgerow-io/src/http/client.rs",
    "crates/hedgerow-io/src/http/connect.rs",
    "crates/hedgerow-io/src/http/guarded.rs",
    "crates/hedgerow-io/src/http/resolve.rs",
    "crates/hedgerow-edge/src/stream.rs",
    "crates/hedgerow-cli/src/client.rs",
    "crates/hedgerow-cli/src/client/",
];
/// Tools, which play publishers and receivers.
const FREE: [&str; 2] = ["hedgerow-sim", "xtask"];
/// Crates that accept connections: they may name a listener, and the stream that it gives them.
const LISTENING: [&str; 2] = ["hedgerow-server", "hedgerow-cli"];

const FORBIDDEN: [&str; 12] = [
    "TcpSocket",
    "UdpSocket",
    "UnixStream",
    "UnixDatagram",
    "lookup_host",
    "to_socket_addrs",
    "ToSocketAddrs",
    "hyper::client",
    "hyper_util::client",
    "reqwest",
    "ureq",
    "socket2",
];

/// The rule `network`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        let is_guarded = GUARDED.iter().any(|guarded| {
            file.path == *guarded || (guarded.ends_with('/') && file.path.starts_with(guarded))
        });
        if is_guarded || FREE.contains(&file.crate_name()) {
            continue;
        }
        let is_listening = LISTENING.contains(&file.crate_name());
        let mut report = |line: usize, what: &str| {
            let message = format!(
                "`{what}` outside the guarded connector; ask hedgerow-io's client, which judges the address"
            );
            findings.error(file.path, line, message);
        };
        for line in file.product_lines() {
            let is_use = line.code.trim_start().starts_with("use ");
            for name in FORBIDDEN
                .iter()
                .filter(|name| !is_use && has_word(&line.code, name))
            {
                report(line.number, name);
            }
            if names_stream(&line.code, is_listening) {
                report(line.number, "TcpStream");
            }
            if !is_listening && has_word(&line.code, "TcpListener") {
                report(line.number, "TcpListener");
            }
        }
        for (line, used) in uses(file.product_lines()) {
            for name in FORBIDDEN.iter().filter(|name| has_word(&used, name)) {
                report(line, name);
            }
        }
    }
}

/// Whether the line uses `TcpStream` in a way that it may not: where connections are accepted the type may be named,
/// but not be called, and not be given another name.
fn names_stream(code: &str, is_listening: bool) -> bool {
    words(code, "TcpStream").any(|at| {
        let after = code[at + "TcpStream".len()..].trim_start();
        !is_listening || after.starts_with("::") || after.starts_with("as ")
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::found;

    const DELIVERY: &str = "crates/hedgerow-delivery/src/a.rs";
    const SERVER: &str = "crates/hedgerow-server/src/a.rs";

    #[test]
    fn sockets_look_ups_and_clients_are_found() {
        for code in [
            "use tokio::net::TcpStream;",
            "fn a() { tokio::net::TcpSocket::new_v4(); }",
            "use std::net::UdpSocket;",
            "fn a() { tokio::net::lookup_host(name); }",
            "fn a() { name.to_socket_addrs(); }",
            "use hyper::{body, client::conn::http1};",
            "use hyper_util::{client::legacy::Client};",
            "fn a() { reqwest::get(url); }",
            "use ureq;",
            "use tokio::net::TcpListener;",
        ] {
            let text = format!("//! A.\n{code}\n");
            assert_eq!(
                found(check, &[(DELIVERY, &text)]),
                [format!("{DELIVERY}:2")],
                "{code}"
            );
        }
    }

    #[test]
    fn the_server_may_accept_but_not_connect() {
        let accept = "use tokio::net::{TcpListener, TcpStream};\nfn serve(stream: TcpStream) {}\n";
        assert!(found(check, &[(SERVER, accept)]).is_empty());
        let connect = "fn a() { TcpStream::connect(address); }\nuse tokio::net::TcpStream as T;\n";
        assert_eq!(
            found(check, &[(SERVER, connect)]),
            [format!("{SERVER}:1"), format!("{SERVER}:2")]
        );
    }

    #[test]
    fn the_connector_the_clis_client_tools_and_tests_are_free() {
        let text = "use tokio::net::{TcpStream, lookup_host};\nuse hyper::client::conn::http1;\n";
        for path in [
            "crates/hedgerow-io/src/http/connect.rs",
            "crates/hedgerow-cli/src/client.rs",
            "crates/hedgerow-sim/src/publisher.rs",
            "xtask/src/a.rs",
            "crates/hedgerow-server/tests/it/main.rs",
        ] {
            assert!(found(check, &[(path, text)]).is_empty(), "{path}");
        }
        for path in [
            "crates/hedgerow-io/src/clock.rs",
            "crates/hedgerow-cli/src/dev.rs",
        ] {
            assert!(!found(check, &[(path, text)]).is_empty(), "{path}");
        }
    }
}

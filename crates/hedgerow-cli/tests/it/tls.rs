//! The server's own TLS, and the client commands over it (ED-008).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};

use crate::kit::{Place, Server, complained, hedgerow, printed, run};

/// Writes a certificate for this machine that vouches for itself.
fn certify(place: &Place) -> String {
    let pem = |label: &str, der: &[u8]| {
        let base64 = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    };
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key);
    let text = pem("CERTIFICATE", certificate.unwrap().der());
    std::fs::write(place.path("certificate.pem"), text).unwrap();
    std::fs::write(
        place.path("key.pem"),
        pem("PRIVATE KEY", &key.serialize_der()),
    )
    .unwrap();
    format!(
        "[tls]\ncertificate_file = \"{}\"\nkey_file = \"{}\"\n",
        place.text("certificate.pem"),
        place.text("key.pem")
    )
}

#[test]
fn commands_speak_tls_and_check_whom_with() {
    let place = Place::new();
    let settings = certify(&place);
    let server = Server::serve(&place, &settings);
    assert!(server.endpoint().starts_with("https://127.0.0.1:"));
    let ca_file = place.text("certificate.pem");
    let created = server.run(&["topic", "create", "orders", "--ca-file", &ca_file]);
    let created = printed(&created);
    assert!(
        created.contains(&format!("{}/orders/api/events", server.endpoint())),
        "{created}"
    );
    let mut with_variable = hedgerow(&["topic", "list", "--token", server.token()]);
    let with_variable = with_variable
        .env("HEDGEROW_CA_FILE", &ca_file)
        .env("HEDGEROW_SERVER", server.endpoint());
    printed(&with_variable.output().unwrap());

    let untrusted = complained(&server.run(&["topic", "list"]), 1);
    assert!(
        untrusted.contains("no TLS") && untrusted.contains("--ca-file"),
        "{untrusted}"
    );
    let no_certificate = ["topic", "list", "--ca-file", &place.text("hedgerow.toml")];
    let refused = complained(&server.run(&no_certificate), 1);
    assert!(refused.contains("hedgerow.toml"), "{refused}");
    let plain = server.endpoint().replace("https://", "http://");
    let mut plain = hedgerow(&[
        "topic",
        "list",
        "--server",
        &plain,
        "--token",
        server.token(),
    ]);
    let refused = complained(&plain.output().unwrap(), 1);
    assert!(
        refused.contains("speaks TLS") && refused.contains(&format!("use {}", server.endpoint())),
        "{refused}"
    );
    assert!(!refused.contains("may have done"), "{refused}");
}

/// ED-008: `config check` judges the address as `serve` does.
#[test]
fn an_address_that_others_reach_wants_tls_or_a_word() {
    let place = Place::new();
    let settings = certify(&place);
    let check = |more: &str| {
        let text = format!("listen = \"0.0.0.0:8443\"\n{more}");
        std::fs::write(place.path("all.toml"), text).unwrap();
        run(&["config", "check", "--config", &place.text("all.toml")])
    };
    let refused = complained(&check(""), 1);
    assert!(
        refused.contains("listen") && refused.contains("insecure_http"),
        "{refused}"
    );
    printed(&check("insecure_http = true\n"));
    printed(&check(&settings));
    let half = settings.lines().next().unwrap().to_owned() + "\ncertificate_file = \"a.pem\"\n";
    let refused = complained(&check(&half), 1);
    assert!(refused.contains("tls.key_file"), "{refused}");
    // The files are read as `serve` reads them: one that is missing, and a key of another certificate.
    let (certificate, key) = (place.text("certificate.pem"), place.text("key.pem"));
    std::fs::rename(&key, place.path("away.pem")).unwrap();
    let refused = complained(&check(&settings), 1);
    assert!(
        refused.contains("cannot read") && refused.contains("key.pem"),
        "{refused}"
    );
    let kept = std::fs::read(&certificate).unwrap();
    let of_others = certify(&place);
    std::fs::write(&certificate, kept).unwrap();
    let refused = complained(&check(&of_others), 1);
    assert!(refused.contains("cannot be used"), "{refused}");
}

#[test]
fn a_server_that_is_not_there_is_one_clear_line() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = complained(
        &run(&["topic", "list", "--server", &server, "--token", "x"]),
        1,
    );
    assert!(
        error.starts_with(&format!("error: cannot connect to {server}"))
            && error.contains("hint: "),
        "{error}"
    );
}

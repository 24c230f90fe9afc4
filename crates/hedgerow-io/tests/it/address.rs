//! FC-15: no spelling of a private address gets through.

use std::net::IpAddr;

use hedgerow_io::http::{AddressGuard, Network, Rule, UrlDenied};
use url::Url;

fn allowing(networks: &[&str]) -> AddressGuard {
    AddressGuard::new(
        networks
            .iter()
            .map(|network| network.parse::<Network>().unwrap()),
    )
}

fn rule_of(guard: &AddressGuard, host: &str) -> Option<Rule> {
    let url = Url::parse(&format!("https://{host}/hook?code=1")).unwrap();
    match guard.judge_url(&url) {
        Ok(()) => None,
        Err(UrlDenied::Address(denied)) => Some(denied.rule),
        Err(other) => panic!("{host}: {other}"),
    }
}

/// Hosts as they may be written, and the rule that denies each; `None`: it is open.
#[rustfmt::skip]
const SPELLINGS: &[(&str, Option<Rule>)] = &[
    // Loopback, in all its clothes.
    ("127.0.0.1", Some(Rule::Loopback)),
    ("127.0.0.1.", Some(Rule::Loopback)),
    ("127.1", Some(Rule::Loopback)),
    ("127.0.1", Some(Rule::Loopback)),
    ("127.255.255.254", Some(Rule::Loopback)),
    ("2130706433", Some(Rule::Loopback)),
    ("0x7f000001", Some(Rule::Loopback)),
    ("0X7F.1", Some(Rule::Loopback)),
    ("0x7f.0.0.0x1", Some(Rule::Loopback)),
    ("0177.0.0.1", Some(Rule::Loopback)),
    ("017700000001", Some(Rule::Loopback)),
    ("%31%32%37.0.0.1", Some(Rule::Loopback)),
    ("①②⑦.⓪.⓪.①", Some(Rule::Loopback)),
    ("127。0。0。1", Some(Rule::Loopback)),
    ("localhost", Some(Rule::Loopback)),
    ("localhost.", Some(Rule::Loopback)),
    ("LOCALHOST", Some(Rule::Loopback)),
    ("a.localhost", Some(Rule::Loopback)),
    ("[::1]", Some(Rule::Loopback)),
    ("[0:0:0:0:0:0:0:1]", Some(Rule::Loopback)),
    ("[::127.0.0.1]", Some(Rule::Loopback)),
    ("[::ffff:127.0.0.1]", Some(Rule::Loopback)),
    ("[::ffff:7f00:1]", Some(Rule::Loopback)),
    ("[::ffff:0:127.0.0.1]", Some(Rule::Loopback)),
    ("[64:ff9b::7f00:1]", Some(Rule::Loopback)),
    ("[64:ff9b:1::7f00:1]", Some(Rule::Loopback)),
    ("[64:ff9b:1:7f00:0:100::]", Some(Rule::Loopback)),
    ("[2002:7f00:1::]", Some(Rule::Loopback)),
    ("[2001::80ff:fffe]", Some(Rule::Loopback)),
    ("[2001:0:7f00:1::f7f7:f7f7]", Some(Rule::Loopback)),
    ("[2606:4700::5efe:127.0.0.1]", Some(Rule::Loopback)),
    ("[2606:4700::200:5efe:127.0.0.1]", Some(Rule::Loopback)),
    // This machine under other names.
    ("0", Some(Rule::Unspecified)),
    ("0.0.0.0", Some(Rule::Unspecified)),
    ("[::]", Some(Rule::Unspecified)),
    ("[::ffff:0.0.0.0]", Some(Rule::Unspecified)),
    ("0.0.0.1", Some(Rule::ThisNetwork)),
    // Not everybody's.
    ("10.0.0.1", Some(Rule::Private)),
    ("10.255.255.255", Some(Rule::Private)),
    ("172.16.0.1", Some(Rule::Private)),
    ("172.31.255.255", Some(Rule::Private)),
    ("192.168.1.1", Some(Rule::Private)),
    ("[::ffff:10.0.0.1]", Some(Rule::Private)),
    ("[2002:a00:1::1]", Some(Rule::Private)),
    ("100.64.0.1", Some(Rule::SharedAddress)),
    ("100.127.255.255", Some(Rule::SharedAddress)),
    ("169.254.1.1", Some(Rule::LinkLocal)),
    ("[fe80::1]", Some(Rule::LinkLocal)),
    ("[febf::1]", Some(Rule::LinkLocal)),
    ("[fec0::1]", Some(Rule::SiteLocal)),
    ("[fc00::1]", Some(Rule::UniqueLocal)),
    ("[fdff::1]", Some(Rule::UniqueLocal)),
    ("224.0.0.1", Some(Rule::Multicast)),
    ("239.255.255.255", Some(Rule::Multicast)),
    ("[ff02::1]", Some(Rule::Multicast)),
    ("255.255.255.255", Some(Rule::Broadcast)),
    ("240.0.0.1", Some(Rule::Reserved)),
    ("192.0.0.1", Some(Rule::ProtocolAssignment)),
    ("[2001:1::1]", Some(Rule::ProtocolAssignment)),
    ("192.0.2.1", Some(Rule::Documentation)),
    ("198.51.100.1", Some(Rule::Documentation)),
    ("203.0.113.1", Some(Rule::Documentation)),
    ("[2001:db8::1]", Some(Rule::Documentation)),
    ("[3fff::1]", Some(Rule::Documentation)),
    ("198.18.0.1", Some(Rule::Benchmarking)),
    ("198.19.255.255", Some(Rule::Benchmarking)),
    ("[2001:2::1]", Some(Rule::Benchmarking)),
    ("192.88.99.1", Some(Rule::SixToFour)),
    ("[100::1]", Some(Rule::Discard)),
    ("[4000::1]", Some(Rule::Reserved)),
    ("[64:ff9b:2::1]", Some(Rule::Reserved)),
    // Wrappings of an address that everybody can reach.
    ("[::ffff:8.8.8.8]", Some(Rule::Ipv4Mapped)),
    ("[::8.8.8.8]", Some(Rule::Ipv4Compatible)),
    ("[64:ff9b:1::808:808]", Some(Rule::LocalTranslation)),
    ("[64:ff9b:1:808:8:800::]", Some(Rule::LocalTranslation)),
    ("[2002:808:808::1]", Some(Rule::SixToFour)),
    ("[2001:0:808:808::f7f7:f7f7]", Some(Rule::Teredo)),
    ("[64:ff9b::8.8.8.8]", None),
    // Credentials.
    ("169.254.169.254", Some(Rule::Metadata)),
    ("169.254.169.254.", Some(Rule::Metadata)),
    ("2852039166", Some(Rule::Metadata)),
    ("0xa9.0xfe.0xa9.0xfe", Some(Rule::Metadata)),
    ("[::ffff:169.254.169.254]", Some(Rule::Metadata)),
    ("[64:ff9b::a9fe:a9fe]", Some(Rule::Metadata)),
    ("169.254.170.2", Some(Rule::Metadata)),
    ("169.254.170.23", Some(Rule::Metadata)),
    ("100.100.100.200", Some(Rule::Metadata)),
    ("168.63.129.16", Some(Rule::Metadata)),
    ("[fd00:ec2::254]", Some(Rule::Metadata)),
    ("[fd00:ec2::23]", Some(Rule::Metadata)),
    ("[fd20:ce::254]", Some(Rule::Metadata)),
    // The neighbours of what is denied, and names, which are judged when they are resolved.
    ("1.1.1.1", None),
    ("9.255.255.255", None),
    ("11.0.0.0", None),
    ("100.63.255.255", None),
    ("100.128.0.0", None),
    ("126.255.255.255", None),
    ("128.0.0.1", None),
    ("169.253.255.255", None),
    ("172.15.255.255", None),
    ("172.32.0.1", None),
    ("192.167.255.255", None),
    ("198.17.255.255", None),
    ("198.20.0.0", None),
    ("223.255.255.255", None),
    ("[2001:200::1]", None),
    ("[2606:4700:4700::1111]", None),
    ("[2a00:1450::1]", None),
    ("example.com", None),
    ("notlocalhost", None),
    ("localhost.example.com", None),
];

#[test]
fn every_spelling_is_judged_as_the_address_it_means() {
    let guard = AddressGuard::default();
    for (host, expect) in SPELLINGS {
        assert_eq!(rule_of(&guard, host), *expect, "{host}");
    }
}

#[test]
fn an_allow_listed_network_opens_itself_and_nothing_else() {
    let rows: &[(&[&str], &str, Option<Rule>)] = &[
        (&["127.0.0.0/8"], "127.1", None),
        (&["127.0.0.0/8"], "2130706433", None),
        (&["127.0.0.0/8"], "localhost.", None),
        (&["127.0.0.0/8"], "[::1]", Some(Rule::Loopback)),
        (&["127.0.0.0/8"], "[::ffff:127.0.0.1]", Some(Rule::Loopback)),
        (&["127.0.0.0/8"], "[2002:7f00:1::]", Some(Rule::Loopback)),
        (&["127.0.0.0/8"], "10.0.0.1", Some(Rule::Private)),
        (&["127.0.0.0/8"], "0.0.0.0", Some(Rule::Unspecified)),
        (&["127.0.0.0/8"], "1.1.1.1", None),
        (&["::1/128"], "localhost", None),
        (&["::1/128"], "[::1]", None),
        (&["::1/128"], "127.0.0.1", Some(Rule::Loopback)),
        (&["10.1.0.0/16"], "10.1.255.255", None),
        (&["10.1.0.0/16"], "10.2.0.0", Some(Rule::Private)),
        (&["fd00::/8"], "[fd00::1]", None),
        (&["fd00::/8"], "[fc00::1]", Some(Rule::UniqueLocal)),
        (&["::ffff:127.0.0.0/104"], "[::ffff:127.0.0.1]", None),
        (&["::ffff:127.0.0.0/104"], "127.0.0.1", Some(Rule::Loopback)),
    ];
    for (networks, host, expect) in rows {
        assert_eq!(
            rule_of(&allowing(networks), host),
            *expect,
            "{host} with {networks:?}"
        );
    }
}

#[test]
fn metadata_addresses_stay_closed_whatever_is_allow_listed() {
    let guard = allowing(&["0.0.0.0/0", "::/0"]);
    let hosts = [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[fd00:ec2::23]",
        "[fd20:ce::254]",
        "[::ffff:169.254.169.254]",
        "[::169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::169.254.169.254]",
        "[64:ff9b:1:a9fe:a9:fe00::]",
        "[2002:a9fe:a9fe::]",
        "[2001:0:a9fe:a9fe::]",
        "[2001::5601:5601]",
        "[fe80::5efe:169.254.169.254]",
        "[2002:a9fe:a9fe::5efe:8.8.8.8]",
        "[2002:808:808::5efe:169.254.169.254]",
    ];
    for host in hosts {
        assert_eq!(rule_of(&guard, host), Some(Rule::Metadata), "{host}");
    }
    assert_eq!(rule_of(&guard, "127.0.0.1"), None);
    assert_eq!(rule_of(&guard, "[::ffff:127.0.0.1]"), None);
}

/// ED-120: plain http is for allow-listed networks.
#[test]
fn plain_http_goes_to_allow_listed_networks_only() {
    let rows: &[(&[&str], &str, Option<&str>)] = &[
        (&[], "http://8.8.8.8/", Some("plain-http")),
        (&[], "http://example.com/", Some("plain-http")),
        (&[], "http://127.0.0.1/", Some("loopback")),
        (&[], "http://localhost/", Some("loopback")),
        (&["127.0.0.0/8"], "http://8.8.8.8/", Some("plain-http")),
        (&["127.0.0.0/8"], "http://127.0.0.1:9/", None),
        (&["127.0.0.0/8"], "http://localhost:9/", None),
        (&["127.0.0.0/8"], "http://example.com/", None), // judged when it is resolved
        (&["8.8.8.0/24"], "http://8.8.8.8/", Some("plain-http")), // not private, whoever lists it
        (&["8.8.8.0/24"], "https://8.8.8.8/", None),
        (&["10.0.0.0/8"], "http://10.1.2.3/", None),
        (&[], "https://8.8.8.8/", None),
        (&[], "ftp://8.8.8.8/", Some("unsupported-url")),
    ];
    for (networks, url, expect) in rows {
        let judged = allowing(networks).judge_url(&Url::parse(url).unwrap());
        let rule = judged.as_ref().err().map(UrlDenied::rule_name);
        assert_eq!(rule, *expect, "{url} with {networks:?}");
    }
}

#[test]
fn a_denial_names_address_rule_and_remedy() {
    let guard = AddressGuard::default();
    let denied = guard.judge(IpAddr::from([10, 0, 0, 1])).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "address 10.0.0.1 is denied by the rule \"private\"; list its network in \
         delivery.allow_networks if deliveries may go there"
    );
    let denied = guard.judge(IpAddr::from([169, 254, 169, 254])).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "address 169.254.169.254 is denied by the rule \"metadata\""
    );
}

//! Which crate may use which. The table here is the only place that says so; the map in `ARCHITECTURE.md` shows it.

use std::fmt::Write as _;

use crate::tidy::Findings;
use crate::tidy::manifest::Manifest;
use crate::tidy::tree::Tree;

/// A crate of the workspace.
#[derive(Debug)]
pub struct Layer {
    /// Its name, and that of its folder.
    pub name: &'static str,
    /// How far up it stands; `None` for the tools, which may use anything and which nothing may use.
    level: Option<u8>,
    /// What it is for.
    purpose: &'static str,
    /// The crates of the workspace that it may use, all of lower layers.
    may_use: &'static [&'static str],
}

const LAYERS: [Layer; 15] = [
    Layer {
        name: "hedgerow-core",
        level: Some(0),
        purpose: "decides: events, filters, schedules, outcomes; pure",
        may_use: &[],
    },
    Layer {
        name: "hedgerow-origin",
        level: Some(0),
        purpose: "judges origins: probe outcomes, health, latency, selection, routes; pure",
        may_use: &[],
    },
    Layer {
        name: "hedgerow-dialect",
        level: Some(1),
        purpose: "spells: events to and from the vendors' wire formats; pure",
        may_use: &["hedgerow-core"],
    },
    Layer {
        name: "hedgerow-store",
        level: Some(1),
        purpose: "remembers: the durable log, the view built from it, the catalog",
        may_use: &["hedgerow-core", "hedgerow-origin"],
    },
    Layer {
        name: "hedgerow-io",
        level: Some(1),
        purpose: "touches the world: clock, chance, guarded outbound HTTP",
        may_use: &["hedgerow-core"],
    },
    Layer {
        name: "hedgerow-prober",
        level: Some(2),
        purpose: "probes origins, and shows selections what it found",
        may_use: &["hedgerow-core", "hedgerow-origin", "hedgerow-io"],
    },
    Layer {
        name: "hedgerow-delivery",
        level: Some(3),
        purpose: "the engine: reads the log, attempts, settles",
        may_use: &[
            "hedgerow-core",
            "hedgerow-origin",
            "hedgerow-dialect",
            "hedgerow-store",
            "hedgerow-io",
        ],
    },
    Layer {
        name: "hedgerow-edge",
        level: Some(3),
        purpose: "forwards: the edge listener's requests to the origins of a group",
        may_use: &[
            "hedgerow-core",
            "hedgerow-origin",
            "hedgerow-io",
            "hedgerow-prober",
        ],
    },
    Layer {
        name: "hedgerow-server",
        level: Some(4),
        purpose: "listens: publish route, admin API; wires everything",
        may_use: &[
            "hedgerow-core",
            "hedgerow-origin",
            "hedgerow-dialect",
            "hedgerow-store",
            "hedgerow-io",
            "hedgerow-prober",
            "hedgerow-delivery",
            "hedgerow-edge",
        ],
    },
    Layer {
        name: "hedgerow-cli",
        level: Some(5),
        purpose: "the one binary, `hedgerow`: serve, dev and every admin command",
        may_use: &["hedgerow-core", "hedgerow-io", "hedgerow-server"],
    },
    Layer {
        name: "hedgerow-cases",
        level: None,
        purpose: "the tables: runs JSON cases against the real code",
        may_use: &[],
    },
    Layer {
        name: "hedgerow-sim",
        level: None,
        purpose: "the proofs: crashes, power cuts, the ledger",
        may_use: &[],
    },
    Layer {
        name: "hedgerow-simulator",
        level: None,
        purpose: "the whole engine on simulated time: one seed, faults everywhere, an oracle",
        may_use: &[],
    },
    Layer {
        name: "hedgerow-micro",
        level: None,
        purpose: "the hot path in steps: micro benchmarks, and counts that noise does not change",
        may_use: &[],
    },
    Layer {
        name: "xtask",
        level: None,
        purpose: "house automation",
        may_use: &[],
    },
];

/// The rule `layers`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    check_with(&LAYERS, tree, findings);
}

/// The rule `manifest`.
pub fn check_manifests(tree: &Tree, findings: &mut Findings) {
    let workspace = tree
        .text("Cargo.toml")
        .map(Manifest::read)
        .unwrap_or_default();
    let is_inherited_unpublished = workspace.has("workspace.package", "publish", "false");
    for (path, _, manifest) in members(tree) {
        if !manifest.has("lints", "workspace", "true") {
            findings.error(
                path,
                manifest.line_of("lints"),
                "add `[lints]` with `workspace = true`",
            );
        }
        let is_unpublished = manifest.has("package", "publish", "false")
            || (is_inherited_unpublished && manifest.has("package", "publish.workspace", "true"));
        if !is_unpublished {
            let line = manifest.line_of("package");
            findings.error(
                path,
                line,
                "add `publish.workspace = true`: nothing is published yet",
            );
        }
    }
}

/// The table of layers for `ARCHITECTURE.md`.
pub fn table() -> String {
    let mut text =
        String::from("| layer | crate | purpose | may use |\n| --- | --- | --- | --- |\n");
    for Layer {
        name,
        level,
        purpose,
        may_use,
    } in &LAYERS
    {
        let level = level.map_or_else(|| "-".to_owned(), |level| level.to_string());
        let short: Vec<&str> = may_use
            .iter()
            .map(|name| name.trim_start_matches("hedgerow-"))
            .collect();
        let may_use = match (level.as_str(), short.as_slice()) {
            ("-", _) => "anything; nothing uses it".to_owned(),
            (_, []) => "nothing".to_owned(),
            (_, short) => short.join(", "),
        };
        let row = writeln!(text, "| {level} | `{name}` | {purpose} | {may_use} |");
        row.expect("writing to a String cannot fail");
    }
    text
}

fn check_with(layers: &[Layer], tree: &Tree, findings: &mut Findings) {
    for (path, name, manifest) in members(tree) {
        let Some(layer) = layers.iter().find(|layer| layer.name == name) else {
            let message = format!(
                "crate {name} is not in the layer table; add a row to xtask/src/tidy/layers.rs"
            );
            findings.error(path, 1, message);
            continue;
        };
        for dependency in manifest.dependencies() {
            let Some(used) = layers.iter().find(|used| used.name == dependency.name) else {
                continue;
            };
            if let Some(reason) = refusal(layer, used) {
                let message = format!("{name} may not use {}: {reason}", used.name);
                findings.error(path, dependency.line, message);
            }
        }
    }
}

/// Why `layer` may not use `used`.
fn refusal(layer: &Layer, used: &Layer) -> Option<String> {
    let (Some(own), Some(below)) = (layer.level, used.level) else {
        return (layer.level.is_some()).then(|| "it is a tool, which nothing uses".to_owned());
    };
    if below >= own {
        return Some(format!(
            "dependencies point to lower layers, this one goes from {own} to {below}; move what is shared down"
        ));
    }
    (!layer.may_use.contains(&used.name)).then(|| {
        "its row in xtask/src/tidy/layers.rs does not name it; go through a crate that it names"
            .to_owned()
    })
}

/// Every crate of the workspace: the path of its manifest, its name, and the manifest. One that is a workspace of its own, as the
/// fuzz targets are, is none of them.
fn members(tree: &Tree) -> impl Iterator<Item = (&str, &str, Manifest)> {
    tree.files().filter_map(|(path, text)| {
        let folder = path.strip_suffix("/Cargo.toml")?;
        let name = folder.strip_prefix("crates/").unwrap_or(folder);
        let is_its_own = text.lines().any(|line| line == "[workspace]");
        (!name.contains('/') && !is_its_own).then(|| (path, name, Manifest::read(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::{LAYERS, check, check_manifests, table};
    use crate::tidy::tests::found;

    const CORE: &str = "crates/hedgerow-core/Cargo.toml";
    const STORE: &str = "crates/hedgerow-store/Cargo.toml";
    const SERVER: &str = "crates/hedgerow-server/Cargo.toml";

    #[test]
    fn rows_of_the_table_name_lower_layers_only() {
        for layer in &LAYERS {
            for used in layer.may_use {
                let used = LAYERS.iter().find(|other| other.name == *used).unwrap();
                assert!(
                    used.level < layer.level,
                    "{} uses {}",
                    layer.name,
                    used.name
                );
                assert!(used.level.is_some(), "{} uses a tool", layer.name);
            }
        }
        for layer in &LAYERS {
            assert!(table().contains(&format!("`{}`", layer.name)));
        }
    }

    #[test]
    fn downward_dependencies_pass() {
        let files = [
            (
                STORE,
                "[dependencies]\nhedgerow-core.workspace = true\nbytes.workspace = true\n",
            ),
            (
                "crates/hedgerow-sim/Cargo.toml",
                "[dependencies]\nhedgerow-server = { path = \"\" }\n",
            ),
            ("xtask/Cargo.toml", "[dependencies]\n"),
        ];
        assert!(found(check, &files).is_empty());
    }

    #[test]
    fn upward_sideways_and_skipping_dependencies_are_found() {
        let up = [(
            CORE,
            "[dependencies]\nbytes = \"1\"\nhedgerow-store.workspace = true\n",
        )];
        assert_eq!(found(check, &up), [format!("{CORE}:3")]);
        let sideways = [(STORE, "[dependencies.io]\npackage = \"hedgerow-io\"\n")];
        assert_eq!(found(check, &sideways), [format!("{STORE}:2")]);
        let to_itself = [(CORE, "[dev-dependencies]\nhedgerow-core.workspace = true\n")];
        assert_eq!(found(check, &to_itself), [format!("{CORE}:2")]);
        let cli = "crates/hedgerow-cli/Cargo.toml";
        let past_the_server = [(cli, "[dependencies]\nhedgerow-store.workspace = true\n")];
        assert_eq!(found(check, &past_the_server), [format!("{cli}:2")]);
    }

    #[test]
    fn dev_dependencies_are_judged_and_tools_are_out_of_reach() {
        let dev = [(CORE, "[dev-dependencies]\nhedgerow-io.workspace = true\n")];
        assert_eq!(found(check, &dev), [format!("{CORE}:2")]);
        let tool = [(
            SERVER,
            "[dev-dependencies]\nhedgerow-sim = { path = \"\" }\n",
        )];
        assert_eq!(found(check, &tool), [format!("{SERVER}:2")]);
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_is_found() {
        let unknown = [("crates/hedgerow-common/Cargo.toml", "[package]\n")];
        assert_eq!(
            found(check, &unknown),
            ["crates/hedgerow-common/Cargo.toml:1"]
        );
    }

    #[test]
    fn manifests_take_the_lints_and_are_not_published() {
        let root = ("Cargo.toml", "[workspace.package]\npublish = false\n");
        let good = "[package]\npublish.workspace = true\n[lints]\nworkspace = true\n";
        assert!(found(check_manifests, &[root, (CORE, good)]).is_empty());
        assert_eq!(
            found(check_manifests, &[(CORE, good)]),
            [format!("{CORE}:2")]
        );
        let bare = "[package]\npublish = false\n";
        assert_eq!(
            found(check_manifests, &[root, (CORE, bare)]),
            [format!("{CORE}:1")]
        );
    }
}

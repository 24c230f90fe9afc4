//! Text that points outside the repository: it would be true on one machine only.

use crate::tidy::Findings;
use crate::tidy::source;
use crate::tidy::tree::{Tree, has_ending};

/// Beginnings of paths in somebody's own folder.
const HOMES: [&str; 3] = ["/home/", "/Users/", "/root/"];

/// The rule `paths`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.files().filter(|(path, _)| *path != "Cargo.lock") {
        // In Rust, a path in code is the compiler's or a test's business; what is written for people is in comments.
        let prose: Vec<String> = if has_ending(path, "rs") {
            source::lines(text)
                .into_iter()
                .map(|line| line.comment)
                .collect()
        } else {
            text.lines().map(str::to_owned).collect()
        };
        for (index, (line, prose)) in text.lines().zip(&prose).enumerate() {
            let number = index + 1;
            if is_named(line, &tree.root) {
                findings.error(
                    path,
                    number,
                    "names the folder of this checkout; say where in the repository",
                );
            }
            for home in HOMES.iter().filter(|home| prose.contains(*home)) {
                findings.error(
                    path,
                    number,
                    format!("names a path below {home}; others have another"),
                );
            }
            for relative in climbing(prose) {
                if !leads_somewhere(tree, path, relative) {
                    let message = format!(
                        "`{relative}` leads out of the repository or nowhere; mend or remove it"
                    );
                    findings.error(path, number, message);
                }
            }
        }
    }
}

/// Whether the line has `root` as a whole path or the beginning of one.
fn is_named(line: &str, root: &str) -> bool {
    // A root of one part, as `/app` in a container, is too ordinary a word.
    root.matches('/').count() > 1
        && line.match_indices(root).any(|(at, _)| {
            let after = line[at + root.len()..].chars().next();
            !after.is_some_and(|sign| sign.is_alphanumeric() || matches!(sign, '-' | '_' | '.'))
        })
}

/// The relative paths in a line that begin with `../`.
fn climbing(line: &str) -> impl Iterator<Item = &str> {
    let is_path_sign = |sign: char| sign.is_alphanumeric() || matches!(sign, '/' | '.' | '-' | '_');
    line.split(move |sign| !is_path_sign(sign))
        .filter(|part| part.starts_with("../"))
        .map(|part| part.trim_end_matches(['.', '/']))
}

fn leads_somewhere(tree: &Tree, from: &str, relative: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            ".." if parts.pop().is_none() => return false,
            ".." | "." | "" => {}
            part => parts.push(part),
        }
    }
    tree.holds(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::found;

    #[test]
    fn the_checkouts_own_place_is_found() {
        let text = "see /srv/checkouts/hedgerow/README.md\nsee /srv/checkouts/hedgerow-old\n";
        assert_eq!(found(check, &[("a.md", text)]), ["a.md:1"]);
        assert_eq!(
            found(
                check,
                &[("a.rs", "//! A.\nlet a = \"/srv/checkouts/hedgerow\";\n")]
            ),
            ["a.rs:2"]
        );
    }

    #[test]
    fn homes_are_found() {
        for home in super::HOMES {
            let text = format!("run {home}me/hedgerow\n");
            assert_eq!(found(check, &[("docs/a.md", &text)]), ["docs/a.md:1"]);
        }
        assert!(found(check, &[("docs/a.md", "data in /var/lib/hedgerow\n")]).is_empty());
    }

    #[test]
    fn relative_paths_lead_somewhere_inside() {
        let files = [
            (
                "docs/guide/a.md",
                "[b](../reference/b.md) and [c](../../README.md)\n[d](../reference/d.md)\n",
            ),
            ("docs/reference/b.md", "../../../other/design.md\n"),
            ("README.md", "../other\n"),
        ];
        assert_eq!(
            found(check, &files),
            ["README.md:1", "docs/guide/a.md:2", "docs/reference/b.md:1"]
        );
        let rust = [(
            "crates/a/src/b.rs",
            "//! See ../nowhere.md.\nlet a = \"../x\";\n",
        )];
        assert_eq!(found(check, &rust), ["crates/a/src/b.rs:1"]);
    }
}

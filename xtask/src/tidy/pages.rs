//! Generated parts of pages: what a page repeats from the code is written by `cargo xtask tidy --write` and checked
//! in, so that a difference shows in review.
//!
//! A part stands between two lines of its own, in any Markdown file:
//!
//! ```text
//! <!-- generated: NAME -->
//! <!-- end generated -->
//! ```
//!
//! | name | what it shows |
//! | --- | --- |
//! | `layers` | the table of crates |
//! | `house-rules` | the rules of `tidy` |
//! | `requirements NAME` | the requirements of a specification, and what checks each: `delivery`, `probes` |
//! | `file PATH` | the file at that path from the root, as a code block |

use std::fmt::Write as _;

use crate::tidy::tree::{Tree, has_ending};
use crate::tidy::{Findings, GENERATED, RULES, layers, requirements};

const BEGIN: &str = "<!-- generated: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end generated -->";

/// The rule `generated`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in pages(tree) {
        let renewal = renew(tree, text);
        for (line, problem) in &renewal.problems {
            findings.error(path, *line, problem.clone());
        }
        for line in &renewal.stale {
            findings.error(
                path,
                *line,
                "a generated part is out of date; run `cargo xtask tidy --write`",
            );
        }
    }
}

/// The pages whose generated parts are out of date, with their new text.
pub fn renewed(tree: &Tree) -> Vec<(String, String)> {
    pages(tree)
        .map(|(path, text)| (path, renew(tree, text)))
        .filter(|(_, renewal)| !renewal.stale.is_empty())
        .map(|(path, renewal)| (path.to_owned(), renewal.text))
        .collect()
}

fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files()
        .filter(|(path, text)| has_ending(path, "md") && text.contains(BEGIN))
}

/// A page with its generated parts written anew.
#[derive(Debug, Default)]
struct Renewal {
    text: String,
    /// The first lines of parts that were out of date.
    stale: Vec<usize>,
    /// What cannot be generated, and where.
    problems: Vec<(usize, String)>,
}

fn renew(tree: &Tree, text: &str) -> Renewal {
    let mut renewal = Renewal::default();
    let lines: Vec<&str> = text.lines().collect();
    let mut index = 0;
    while index < lines.len() {
        let line = lines[index];
        renewal.text.push_str(line);
        renewal.text.push('\n');
        index += 1;
        let name = line
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(BEGIN_END));
        let Some(name) = name else { continue };
        let Some(length) = lines[index..].iter().position(|line| *line == END) else {
            renewal
                .problems
                .push((index, format!("no line `{END}` follows; add it")));
            continue;
        };
        let old: String = lines[index..index + length]
            .iter()
            .fold(String::new(), |text, line| text + line + "\n");
        match generate(tree, name) {
            Ok(new) => {
                if new != old {
                    renewal.stale.push(index);
                }
                renewal.text.push_str(&new);
            }
            Err(problem) => {
                renewal.problems.push((index, problem));
                renewal.text.push_str(&old);
            }
        }
        index += length;
    }
    renewal
}

/// The text of one part, with a newline at its end.
fn generate(tree: &Tree, name: &str) -> Result<String, String> {
    match name.split_once(' ') {
        None if name == "layers" => Ok(layers::table()),
        None if name == "house-rules" => Ok(house_rules()),
        Some(("requirements", name)) => requirements::tables(tree, name)
            .ok_or_else(|| format!("there is no specification \"{name}\"")),
        Some(("file", path)) => {
            let text = tree
                .text(path)
                .ok_or_else(|| format!("there is no file {path}"))?;
            let language = path.rsplit_once('.').map_or("text", |(_, ending)| ending);
            Ok(format!("```{language}\n{}\n```\n", text.trim_end()))
        }
        _ => Err(format!(
            "nothing generates \"{name}\"; the names are in xtask/src/tidy/pages.rs"
        )),
    }
}

fn house_rules() -> String {
    let mut text = String::from("| rule | asks for |\n| --- | --- |\n");
    for rule in &RULES {
        writeln!(text, "| `{}` | {} |", rule.name, rule.about)
            .expect("writing to a String cannot fail");
    }
    let about =
        "What a page repeats from the code is written by `cargo xtask tidy --write`, and is fresh.";
    writeln!(text, "| `{GENERATED}` | {about} |").expect("writing to a String cannot fail");
    text
}

#[cfg(test)]
mod tests {
    use super::{check, renewed};
    use crate::tidy::tests::found;
    use crate::tidy::tree::Tree;

    const PAGE: &str = "# A\n<!-- generated: file a.toml -->\nold\n<!-- end generated -->\nafter\n";

    #[test]
    fn a_stale_part_is_found_and_renewed() {
        let files = [("docs/a.md", PAGE), ("a.toml", "b = 1\n")];
        assert_eq!(found(check, &files), ["docs/a.md:2"]);
        let new = renewed(&Tree::from_texts(&files));
        let text = "# A\n<!-- generated: file a.toml -->\n```toml\nb = 1\n```\n<!-- end generated -->\nafter\n";
        assert_eq!(new, [("docs/a.md".to_owned(), text.to_owned())]);
        let fresh = [("docs/a.md", text), ("a.toml", "b = 1\n")];
        assert!(found(check, &fresh).is_empty());
        assert!(renewed(&Tree::from_texts(&fresh)).is_empty());
    }

    #[test]
    fn tables_are_generated_from_the_code() {
        for name in [
            "layers",
            "house-rules",
            "requirements delivery",
            "requirements probes",
        ] {
            let text = format!("<!-- generated: {name} -->\n<!-- end generated -->\n");
            let files = [("a.md", text.as_str())];
            assert_eq!(found(check, &files), ["a.md:1"]);
            assert!(renewed(&Tree::from_texts(&files))[0].1.contains("| --- |"));
        }
    }

    #[test]
    fn parts_that_cannot_be_generated_are_found() {
        for text in [
            PAGE.replace("<!-- end generated -->\n", ""),
            PAGE.replace("file a.toml", "file none.toml"),
            PAGE.replace("file a.toml", "nothing"),
            PAGE.replace("file a.toml", "requirements gossip"),
        ] {
            assert_eq!(
                found(check, &[("a.md", &text), ("a.toml", "")]),
                ["a.md:2"],
                "{text}"
            );
        }
    }
}

//! The form of the list of faults.
//!
//! ```text
//! # a comment
//! == name: what is wrong with it
//! in crates/a-crate/src/a_file.rs
//! behind text of a line above it, when the line stands there more than once
//! - the line as it is
//! + the line as it is then
//! by -p a-crate --test it -- a_test
//! ```

use crate::Failure;

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutant {
    /// Short; stands for it.
    pub name: String,
    /// What is wrong.
    pub about: String,
    /// The file, from the root.
    pub file: String,
    /// The line is the first of its text behind the first line with this.
    behind: Option<String>,
    line: String,
    with: String,
    /// What `cargo test` is given.
    pub tests: String,
}

impl Mutant {
    /// The same fault with another text in place of `text` in what stands there then.
    pub fn replacing(&self, text: &str, by: &str) -> Self {
        Self {
            with: self.with.replace(text, by),
            ..self.clone()
        }
    }

    /// The text of the file with the fault in it.
    pub fn apply(&self, text: &str) -> Result<String, Failure> {
        let lines: Vec<&str> = text.lines().collect();
        let stale = |why: &str| format!("{}: {} {why}: {}", self.name, self.file, self.line);
        let from = match &self.behind {
            None => 0,
            Some(behind) => lines
                .iter()
                .position(|line| line.contains(behind))
                .ok_or_else(|| stale("lacks what it stands behind"))?,
        };
        let is_it = |line: &&str| line.trim() == self.line;
        let found = lines[from..].iter().position(is_it);
        let at = from + found.ok_or_else(|| stale("lacks the line"))?;
        if self.behind.is_none() && lines[at + 1..].iter().any(is_it) {
            return Err(stale(
                "has the line more than once; say what it stands behind",
            ));
        }
        let mut mutated = lines;
        mutated[at] = &self.with;
        Ok(mutated.join("\n") + "\n")
    }
}

/// Reads the list.
pub fn read(text: &str) -> Result<Vec<Mutant>, Failure> {
    let mut mutants = Vec::new();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    while let Some((at, line)) = lines.next() {
        let wrong = |what: &str| format!("mutants.txt, line {at}: {what}");
        let (name, about) = line
            .strip_prefix("== ")
            .and_then(|line| line.split_once(": "))
            .ok_or_else(|| wrong("a fault begins with `== name: what is wrong`"))?;
        let mut part = |mark: &str| {
            let (_, line) = lines.peek()?;
            let rest = line
                .strip_prefix(mark)?
                .strip_prefix(' ')?
                .trim()
                .to_owned();
            lines.next();
            Some(rest)
        };
        let missing = |mark: &str| wrong(&format!("the fault lacks its `{mark}` line"));
        mutants.push(Mutant {
            name: name.to_owned(),
            about: about.to_owned(),
            file: part("in").ok_or_else(|| missing("in"))?,
            behind: part("behind"),
            line: part("-").ok_or_else(|| missing("-"))?,
            with: part("+").ok_or_else(|| missing("+"))?,
            tests: part("by").ok_or_else(|| missing("by"))?,
        });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::read;

    const LIST: &str = "\
# comment
== turned: a comparison is turned
in a.rs
- if a < b {
+ if a <= b {
by -p a

== second: the second of two
in a.rs
behind fn other
- let c = 1;
+ let c = 2;
by -p a --test it -- c
";

    #[test]
    fn a_line_is_found_and_replaced() {
        let mutants = read(LIST).unwrap();
        let text = "if a < b {\n    let c = 1;\n}\nfn other() {\n    let c = 1;\n}\n";
        let mutated: Vec<String> = mutants.iter().map(|one| one.apply(text).unwrap()).collect();
        assert_eq!(mutated[0], text.replace("a < b", "a <= b"));
        assert!(
            mutated[1].ends_with("fn other() {\nlet c = 2;\n}\n"),
            "{}",
            mutated[1]
        );
        assert_eq!(mutants[1].tests, "-p a --test it -- c");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let mutants = read(LIST).unwrap();
        for text in ["if a > b {\n", "if a < b {\nif a < b {\n"] {
            assert!(mutants[0].apply(text).is_err(), "{text}");
        }
        assert!(mutants[1].apply("let c = 1;\n").is_err());
        for list in ["in a.rs\n", "== a: b\nin a.rs\n- x\nby -p a\n", "== a\n"] {
            assert!(read(list).is_err(), "{list}");
        }
    }
}

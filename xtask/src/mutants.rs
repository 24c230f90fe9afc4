//! `mutants`: puts the faults of `xtask/mutants.txt` into the rules, one at a time, and fails unless the tests notice each.
//!
//! A fault is one line of the code and what stands there instead: a comparison turned, a floor dropped, a header left
//! out. It is put into a copy of the tree, in the target folder; the tests that it names are built and run there. One that
//! does not build, or whose line is not found exactly once, is stale and fails the command: a list that rots proves
//! nothing.

pub mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

use self::list::Mutant;

/// The list, from the root.
const LIST: &str = "xtask/mutants.txt";
/// A fault may keep the tests from ending; that is noticed too.
const TESTS_MAX: Duration = Duration::from_secs(90);
/// Building one may take this long.
const BUILD_MAX: Duration = Duration::from_secs(900);

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let accepted = Accepted {
        flags: &[],
        values: &["only"],
    };
    let options = Options::read(arguments, accepted)?;
    let only = options.text("only").unwrap_or_default();
    let text = read(&workspace.root.join(LIST))?;
    let mut mutants: Vec<Mutant> = list::read(&text)?
        .into_iter()
        .filter(|mutant| only.split(',').any(|name| mutant.name.contains(name)))
        .collect();
    if mutants.is_empty() {
        return Err(format!("no fault has \"{only}\" in its name"));
    }
    mutants.sort_by_key(in_order);
    let began = Instant::now();
    let copy = Copy::new(workspace)?;
    println!("mutants: the tests without a fault");
    let tests: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.tests).collect();
    for tests in tests {
        if !copy.builds(tests) || !copy.passes(tests) {
            return Err(format!("`cargo test {tests}` fails without a fault"));
        }
    }
    let mut unnoticed = Vec::new();
    for (mutant, number) in mutants.iter().zip(1..) {
        let start = Instant::now();
        let fate = copy.fate(mutant)?;
        let seconds = start.elapsed().as_secs();
        let (fate_said, count) = (fate.as_str(), mutants.len());
        println!(
            "{number:>3}/{count} {seconds:>3} s  {fate_said:<9} {}: {}",
            mutant.name, mutant.about
        );
        if fate != Fate::Noticed {
            unnoticed.push(mutant.name.as_str());
        }
    }
    let (count, noticed) = (mutants.len(), mutants.len() - unnoticed.len());
    let minutes = began.elapsed().as_secs().div_ceil(60);
    println!("mutants: {count} faults, {noticed} noticed, in {minutes} min");
    if unnoticed.is_empty() {
        return Ok(());
    }
    Err(format!("not noticed, or stale: {}", unnoticed.join(", ")))
}

/// Where a fault stands in a run. Taking one out builds everything above it again, together with the next one: so those of the
/// crates that the fewest others need come first, and those of one file follow each other.
fn in_order(mutant: &Mutant) -> (usize, String) {
    const FROM_ABOVE: [&str; 7] = [
        "cli", "server", "delivery", "io", "store", "dialect", "core",
    ];
    let is_in = |crate_name: &&str| mutant.file.contains(&format!("/hedgerow-{crate_name}/"));
    let place = FROM_ABOVE.iter().position(is_in);
    (place.unwrap_or(FROM_ABOVE.len()), mutant.file.clone())
}

/// What became of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Tests failed, or did not end.
    Noticed,
    /// They passed.
    Unnoticed,
    /// It does not build.
    Stale,
}

impl Fate {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Noticed => "noticed",
            Self::Unnoticed => "UNNOTICED",
            Self::Stale => "STALE",
        }
    }
}

/// A copy of the tree, where faults may stand.
pub struct Copy {
    workspace: Workspace,
}

impl Copy {
    /// Makes the copy, or brings it up to date: files that are the same keep their times, so that cargo builds only what
    /// differs.
    pub fn new(workspace: &Workspace) -> Result<Self, Failure> {
        let folder = workspace.target.join("mutants");
        let root = folder.join("tree");
        for file in tracked(workspace)? {
            let text = std::fs::read(workspace.root.join(&file));
            let Ok(text) = text else { continue };
            write_if_other(&root.join(&file), &text)?;
        }
        Ok(Self {
            workspace: workspace.at(root, folder.join("target")),
        })
    }

    /// Puts all of the faults in, as `planted` makes them, does something with the tree, and takes them out again.
    pub fn with_all<T>(
        &self,
        faults: &[Mutant],
        planted: impl Fn(&Mutant) -> Mutant,
        work: impl FnOnce(&Workspace) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut texts = BTreeMap::new();
        for fault in faults {
            let path = self.workspace.root.join(&fault.file);
            if !texts.contains_key(&path) {
                let text = read(&path)?;
                texts.insert(path.clone(), (text.clone(), text));
            }
            let Some((_, text)) = texts.get_mut(&path) else {
                continue;
            };
            *text = planted(fault).apply(text)?;
        }
        for (path, (_, text)) in &texts {
            write_if_other(path, text.as_bytes())?;
        }
        let done = work(&self.workspace);
        for (path, (text, _)) in &texts {
            write_if_other(path, text.as_bytes())?;
        }
        done
    }

    /// Puts a fault in, runs its tests, and takes it out again.
    fn fate(&self, mutant: &Mutant) -> Result<Fate, Failure> {
        let path = self.workspace.root.join(&mutant.file);
        let text = read(&path)?;
        write_if_other(&path, mutant.apply(&text)?.as_bytes())?;
        let fate = if !self.builds(&mutant.tests) {
            Fate::Stale
        } else if self.passes(&mutant.tests) {
            Fate::Unnoticed
        } else {
            Fate::Noticed
        };
        write_if_other(&path, text.as_bytes())?;
        Ok(fate)
    }

    fn builds(&self, tests: &str) -> bool {
        // What a filter of tests says is behind the dashes, and no matter of building.
        let packages = tests.split(" -- ").next().unwrap_or(tests);
        shell::succeeds_within(&mut self.cargo("test --no-run", packages), BUILD_MAX)
    }

    fn passes(&self, tests: &str) -> bool {
        shell::succeeds_within(&mut self.cargo("test", tests), TESTS_MAX)
    }

    fn cargo(&self, command: &str, rest: &str) -> Command {
        let words = command.split_whitespace().chain(rest.split_whitespace());
        let mut cargo = self.workspace.cargo(words);
        // Faults in which a number passes its end are noticed at once; the time goes into building anyway.
        cargo.env("CARGO_TARGET_DIR", &self.workspace.target);
        cargo.env("CARGO_INCREMENTAL", "1");
        // Nobody looks at where a test failed, and linking takes most of the time.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
        cargo
    }
}

/// The files of the tree that belong to it, new ones included.
fn tracked(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    let listed = Command::new("git")
        .current_dir(&workspace.root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !listed.status.success() {
        return Err("`git ls-files` failed; the list of files comes from it".to_owned());
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn write_if_other(path: &Path, text: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LIST, list, read};
    use crate::shell::Workspace;

    /// The list fits the code as it stands, and is as long as it has to be.
    #[test]
    fn every_fault_has_its_line() {
        let workspace = Workspace::find().unwrap();
        let mutants = list::read(&read(&workspace.root.join(LIST)).unwrap()).unwrap();
        let stale: Vec<String> = mutants
            .iter()
            .filter_map(|mutant| {
                let text = read(&workspace.root.join(&mutant.file));
                text.and_then(|text| mutant.apply(&text)).err()
            })
            .collect();
        assert!(stale.is_empty(), "{}", stale.join("\n"));
        let names: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.name).collect();
        assert_eq!(names.len(), mutants.len(), "a name stands for one fault");
    }
}

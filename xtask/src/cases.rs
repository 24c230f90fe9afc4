//! `cases`: runs tables of cases against the real code: the files named, or all in `cases/`. What runs them is
//! hedgerow-cases.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::shell::{self, Workspace};

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    if let Some(option) = arguments.iter().find(|argument| argument.starts_with('-')) {
        return Err(format!(
            "there is no option {option}; say files, or nothing for all in cases/"
        ));
    }
    let files = if arguments.is_empty() {
        all(&workspace.root.join("cases"))?
    } else {
        // Where the user stands, which is not where cargo runs it.
        arguments
            .iter()
            .map(|file| absolute(file))
            .collect::<Result<_, _>>()?
    };
    let mut cases = workspace.cargo(["run", "--quiet", "--package", "hedgerow-cases", "--"]);
    cases.args(files);
    shell::run(cases)
}

fn absolute(file: &str) -> Result<PathBuf, Failure> {
    std::path::absolute(file).map_err(|error| format!("{file}: {error}"))
}

/// The files two levels down, in order.
fn all(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for kind in entries(folder)? {
        files.extend(entries(&kind)?);
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(named)? {
        found.push(entry.map_err(named)?.path());
    }
    found.sort();
    Ok(found)
}

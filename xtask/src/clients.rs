//! The tests that drive the server with published client libraries, `tests/clients`: makes a virtual environment under
//! `target/` with the versions of `requirements.txt`, and runs them against the program that was just built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::setup;
use crate::shell::{self, Workspace};

/// Where the tests are, from the root.
const TESTS: &str = "tests/clients";
/// What makes virtual environments: Python 3.9 with pip.
const PYTHON: &str = "python3";
const PYTHON_CHECK: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))";

/// Whether there is a Python that can make a virtual environment.
pub fn has_python() -> bool {
    shell::succeeds(Command::new(PYTHON).args(["-c", PYTHON_CHECK]))
}

/// The command: passes its arguments on to pytest.
pub fn run_alone(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    setup::ensure_packages();
    run(workspace, arguments)
}

/// Runs the tests, or says loudly that they were left out.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    if !has_python() {
        println!(
            "\n!!! NOT TESTED: the published clients ({TESTS}). They need Python 3.9 or newer with venv and pip, and there \
             is none.\n!!! `cargo xtask setup` installs it where it knows how."
        );
        return Ok(());
    }
    shell::run(workspace.cargo(["build", "--package", "hedgerow-cli"]))?;
    let python = environment(workspace)?;
    let mut tests = Command::new(python);
    tests
        .current_dir(&workspace.root)
        .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", TESTS])
        .args(arguments)
        .env("HEDGEROW_BIN", workspace.target.join("debug/hedgerow"))
        // Long enough to see that nothing more comes, where attempts are 200 ms apart.
        .env("HEDGEROW_QUIET", "0.4")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    shell::run(tests)
}

/// The Python of an environment with exactly what `requirements.txt` says; made anew when that has changed.
fn environment(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let requirements = workspace.root.join(TESTS).join("requirements.txt");
    let wanted = read(&requirements)?;
    let folder = workspace.target.join("clients-venv");
    let (python, stamp) = (folder.join("bin/python"), folder.join("requirements.txt"));
    if python.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(python);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    let mut make = Command::new(PYTHON);
    make.args(["-m", "venv"]).arg(&folder);
    shell::run(make)?;
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--requirement"])
        .arg(&requirements);
    shell::run(install).map_err(|failure| {
        format!("{failure}\nthe tests with published clients need packages from PyPI; is there a network?")
    })?;
    std::fs::write(&stamp, wanted)
        .map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(python)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

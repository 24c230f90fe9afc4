//! `setup`: installs what `check` and `test` need and is missing.
//!
//! A compiler and a linker are there already, or this program would not run. rustfmt and clippy come from rustup;
//! where it cannot get them, that is said, and `check` leaves out what it cannot do. cargo-deny takes minutes to build,
//! so it is installed only when asked for. Python for the tests with published clients, and curl, which a test pastes lines
//! for, come from the system's package manager where that may be used without asking for a password.

use std::process::Command;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::clients;
use crate::shell::{self, Workspace};

/// The line of cargo-deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20";

/// A part of the toolchain that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// What rustup calls it.
    pub name: &'static str,
    /// Its cargo command.
    pub command: &'static str,
}

/// rustfmt, as `cargo fmt`.
pub const RUSTFMT: Component = Component {
    name: "rustfmt",
    command: "fmt",
};
/// Clippy, as `cargo clippy`.
pub const CLIPPY: Component = Component {
    name: "clippy",
    command: "clippy",
};

const COMPONENTS: [Component; 2] = [RUSTFMT, CLIPPY];

/// A program that comes from the system.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
    /// What it is called by apt, dnf and apk, in this order.
    called: [&'static [&'static str]; 3],
}

const PACKAGES: [Package; 2] = [
    Package {
        name: "python",
        is_there: clients::has_python,
        called: [
            &["python3", "python3-venv"],
            &["python3", "python3-pip"],
            &["python3", "py3-pip"],
        ],
    },
    Package {
        name: "curl",
        is_there: has_curl,
        called: [&["curl"], &["curl"], &["curl"]],
    },
];

/// Package managers, in the order of [`Package::called`], with what installs without asking.
const MANAGERS: [&[&str]; 3] = [
    &["apt-get", "install", "--yes", "--no-install-recommends"],
    &["dnf", "install", "--assumeyes"],
    &["apk", "add"],
];

fn has_curl() -> bool {
    shell::succeeds(Command::new("curl").arg("--version"))
}

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let options = Options::read(
        arguments,
        Accepted {
            flags: &["deny"],
            values: &[],
        },
    )?;
    ensure(workspace);
    ensure_packages();
    for component in COMPONENTS {
        report(component.name, is_present(workspace, component.command));
    }
    for package in &PACKAGES {
        report(package.name, (package.is_there)());
    }
    if options.has("deny") && !is_present(workspace, "deny") {
        let version = format!("cargo-deny@{DENY_VERSION}");
        shell::run(workspace.cargo(["install", "--locked", &version]))?;
    }
    report("cargo-deny", is_present(workspace, "deny"));
    Ok(())
}

/// Installs the components that are missing, as far as rustup can. Says nothing when nothing is missing.
pub fn ensure(workspace: &Workspace) {
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|component| !is_present(workspace, component.command))
        .map(|component| component.name)
        .collect();
    if missing.is_empty() {
        return;
    }
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(&workspace.root)
        .args(["component", "add"])
        .args(&missing);
    if let Err(failure) = shell::run(rustup) {
        println!(
            "note: {} could not be installed ({failure}); what needs it is left out",
            missing.join(" and ")
        );
    }
}

/// Installs the programs that are missing, if a package manager may do it. Says nothing when nothing is missing.
pub fn ensure_packages() {
    let missing: Vec<&Package> = PACKAGES.iter().filter(|one| !(one.is_there)()).collect();
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let found = MANAGERS.iter().zip(0..).find(|(words, _)| {
        let mut manager = Command::new(words[0]);
        shell::succeeds(manager.arg("--version"))
    });
    let Some((words, index)) = found else {
        println!(
            "note: {} is missing, and there is no package manager that this program knows",
            names.join(" and ")
        );
        return;
    };
    let packages = missing.iter().flat_map(|package| package.called[index]);
    let install = || {
        let mut install = privileged(words);
        install.args(packages.clone());
        shell::run(install)
    };
    let installed = install().or_else(|failure| {
        if words[0] != "apt-get" {
            return Err(failure);
        }
        // It knows no packages before it was told to fetch their list.
        shell::run(privileged(&["apt-get", "update"]))?;
        install()
    });
    if let Err(failure) = installed {
        println!(
            "note: {} could not be installed ({failure}); what needs it is left out",
            names.join(" and ")
        );
    }
}

/// A command with the rights to install: as root, or as somebody who need not say a password. There may be no terminal to
/// ask for one at.
fn privileged(words: &[&str]) -> Command {
    let by_sudo = shell::succeeds(Command::new("sudo").args(["-n", "true"]));
    let sudo: &[&str] = if by_sudo { &["sudo", "-n"] } else { &[] };
    let all: Vec<&str> = sudo.iter().chain(words).copied().collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]);
    command
}

/// Whether cargo knows the command.
pub fn is_present(workspace: &Workspace, command: &str) -> bool {
    shell::succeeds(&mut workspace.cargo([command, "--version"]))
}

fn report(name: &str, is_present: bool) {
    println!(
        "{name:<12}{}",
        if is_present {
            "installed"
        } else {
            "not installed"
        }
    );
}

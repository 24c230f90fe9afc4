//! Runs tables of cases against the real code: the functions that the publish route, the matcher, the engine and the
//! dead-letter writer use, and no copy of them. A rule can so be checked without writing Rust: `cargo xtask cases FILE...`.
//!
//! | module | has |
//! | --- | --- |
//! | [`table`] | the form of a file and of a case |
//! | [`kinds`] | how each kind of case is run |
//! | [`publish_request`] | how publish requests in the tables are read |
//! | [`read_values`] | how times and names in the tables are read |
//! | [`report`] | what came out |

pub mod kinds;
pub mod publish_request;
pub mod read_values;
pub mod report;
pub mod table;

use std::path::Path;

use crate::report::Report;

/// Runs every case of the files.
///
/// # Errors
///
/// If a file cannot be read.
pub fn run<P: AsRef<Path>>(files: &[P]) -> Result<Report, String> {
    let mut report = Report::default();
    for file in files {
        for case in table::read(file.as_ref())? {
            report.add(&case, kinds::judge(&case));
        }
    }
    Ok(report)
}

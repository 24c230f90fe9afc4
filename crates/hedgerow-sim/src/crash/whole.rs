//! Whether what an ended life left on the disk is whole, by the check that operators have.

use std::path::Path;
use std::sync::Arc;

use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::check::check;
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::Table;
use hedgerow_store::view::table::lsm::LsmTable;

/// So many lives end before the store is checked again. Not each time: opening the view's table tidies up after a
/// crash, and most often that is to be left to the server.
const LIVES_A_CHECK: usize = 3;

/// Checks the store that the ended life with this number left, if it is its turn; says whether it was.
pub fn check_after(life: usize, data: &Path) -> Result<bool, String> {
    if !(life + 1).is_multiple_of(LIVES_A_CHECK) {
        return Ok(false);
    }
    let disk = RealDisk::new(data).map_err(|error| format!("{}: {error}", data.display()))?;
    let view = data.join("view");
    let secrets = Secrets::open(&disk).map_err(|error| error.to_string())?;
    let report = check(&disk, &Arc::new(secrets), &|| {
        let table: Option<Arc<dyn Table>> = if view.is_dir() {
            Some(Arc::new(LsmTable::open(&view)?))
        } else {
            None
        };
        Ok(table)
    });
    let report = report.map_err(|error| format!("the store cannot be checked: {error}"))?;
    match report.problems.first() {
        None => Ok(true),
        Some(problem) => Err(format!(
            "life {life} left a store that is not whole: {problem}"
        )),
    }
}

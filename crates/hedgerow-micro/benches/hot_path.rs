//! Nanoseconds of each step. `cargo bench -p hedgerow-micro`, with a part of a step's name behind `--` for some.

use divan::Bencher;
use hedgerow_micro::{Inputs, STEPS};

fn main() {
    divan::main();
}

#[divan::bench(args = STEPS.map(|step| step.name))]
fn hot_path(bencher: Bencher<'_, '_>, name: &str) {
    let step = STEPS.iter().find(|step| step.name == name);
    let step = step.expect("the names are those of the steps");
    let mut inputs = Inputs::new();
    bencher.bench_local(|| (step.run)(&mut inputs));
}

//! The power-cut proof: the real log and the real view on a disk and a table that lose power, in one process, driven step
//! by step from one seed.
//!
//! A *life* is one store over some rounds. A round publishes, starts, fails and settles deliveries, checkpoints and
//! recycles at random, until it ends in a power cut, a kill, a failed sync, or several of them; then the store is opened
//! again and compared, record by record, with the obvious model ([`model`]). What was acknowledged must be there;
//! whatever was being written may be there whole or not at all. Now and then the view is lost and built again first.
//!
//! A proof that cannot fail proves nothing: the same lives run on disks that each forget one duty, and each of them must
//! be found out.

mod life;
mod model;
mod table;
mod tally;

use hedgerow_store::disk::mutant::Mutation;

use self::life::Life;
use self::tally::Tally;

/// Rounds of one store.
const ROUNDS_PER_LIFE: u64 = 20;
/// Lives that a mutant may survive before the proof counts as blind to it.
const MUTANT_LIVES_MAX: u64 = 40;

/// Runs the proof.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let rounds = number(arguments, "--rounds")?.unwrap_or(200);
    let seed = number(arguments, "--seed")?.unwrap_or_else(any_seed);
    println!("power proof: {rounds} rounds, seed {seed}");
    let mut tally = Tally::default();
    let mut life = 0;
    while tally.rounds < rounds {
        let life_rounds = ROUNDS_PER_LIFE.min(rounds - tally.rounds);
        let life_seed = seed.wrapping_add(life);
        let one = Life::run(life_seed, None, life_rounds).map_err(|error| {
            format!(
                "FAIL: {error}\nrepeat with: power --rounds {ROUNDS_PER_LIFE} --seed {life_seed}"
            )
        })?;
        tally.add(&one);
        life += 1;
    }
    println!("{tally}");
    let caught = catch_mutants(seed);
    println!(
        "mutants caught     {} of {}",
        caught.len(),
        Mutation::ALL.len()
    );
    tally.check(rounds)?;
    if caught.len() < Mutation::ALL.len() {
        let missed: Vec<_> = Mutation::ALL
            .iter()
            .filter(|m| !caught.contains(m))
            .collect();
        return Err(format!("FAIL: the proof does not see {missed:?}"));
    }
    println!("PASS");
    Ok(())
}

fn catch_mutants(seed: u64) -> Vec<Mutation> {
    Mutation::ALL
        .into_iter()
        .filter(|mutation| is_caught(*mutation, seed))
        .collect()
}

fn is_caught(mutation: Mutation, seed: u64) -> bool {
    for life in 0..MUTANT_LIVES_MAX {
        // A mutant's store may be so broken that the model's own checks panic on what it reads.
        let outcome = std::panic::catch_unwind(|| {
            Life::run(seed.wrapping_add(life), Some(mutation), ROUNDS_PER_LIFE)
        });
        match outcome {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                println!("  {mutation:?} caught in life {}: {error}", life + 1);
                return true;
            }
            Err(_) => {
                println!(
                    "  {mutation:?} caught in life {}: the store panicked",
                    life + 1
                );
                return true;
            }
        }
    }
    false
}

fn number(arguments: &[String], name: &str) -> Result<Option<u64>, String> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else {
        return Ok(None);
    };
    let value = arguments.get(at + 1).and_then(|value| value.parse().ok());
    value
        .map(Some)
        .ok_or_else(|| format!("{name} needs a whole number"))
}

fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    // Without entropy a fixed seed is as good a proof.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

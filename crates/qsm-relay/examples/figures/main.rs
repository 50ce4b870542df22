//! The cost of a relay's services, as S1 measures them (E50, E51), beside the paper's figures.
//!
//! ```text
//! cargo run --release -p qsm-relay --example figures -- [--out DIR] [--samples 20000]
//! ```
//!
//! What is timed is the state machine alone: a datagram's bytes in, the addresses that get it and the
//! packets that follow out. The kernel's part is measured beside it.

#[path = "../../../groupcast/src/bin/groupcast/chart.rs"]
mod chart;
mod measure;
mod page;
mod site;

use std::error::Error;
use std::fs;
use std::path::Path;

use measure::{Cost, Election};

/// Bytes of a packet: S1 varies them from 1 to 32 KByte.
const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Receivers below the relay in the measurements of services: S1's most.
const RECEIVERS: usize = 50;
/// S1 has 5 to 25.
const CANDIDATES: [usize; 6] = [5, 10, 15, 20, 25, 50];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: &str| {
        let at = words.iter().position(|word| word == name);
        let value = at.and_then(|at| words.get(at + 1));
        value.cloned().unwrap_or_else(|| default.to_owned())
    };
    let out = option("--out", "docs/figures-relay");
    let samples: usize = option("--samples", "20000").parse()?;
    let out = Path::new(&out);
    fs::create_dir_all(out)?;
    let mut costs: Vec<Cost> = Vec::new();
    for kilobytes in SIZES {
        costs.extend(measure::services(kilobytes * 1024, RECEIVERS, samples));
        costs.push(measure::kernel(kilobytes * 1024, samples.min(5000))?);
    }
    let elections: Vec<Election> = CANDIDATES
        .into_iter()
        .flat_map(|receivers| measure::elections(receivers, samples / 20))
        .collect();
    let idle = measure::idle_bytes(RECEIVERS);
    fs::write(out.join("E50.csv"), measure::costs_csv(&costs))?;
    fs::write(out.join("E51.csv"), measure::elections_csv(&elections))?;
    fs::write(out.join("E50.svg"), page::costs_chart(&costs).svg())?;
    fs::write(out.join("E51.svg"), page::elections_chart(&elections).svg())?;
    let page = page::page(&costs, &elections, idle, samples);
    print!("{page}");
    fs::write(out.join("README.md"), page)?;
    Ok(())
}

//! Scratch.
use std::sync::atomic::AtomicBool;
struct P;
impl qsm_figures::Progress for P {
    fn done(&self, d: usize, a: usize, s: &str, t: f64) {
        if t > 8.0 || d.is_multiple_of(20) {
            eprintln!("{d}/{a} {s} {t:.1}s");
        }
    }
}
fn main() {
    let ids: Vec<String> = std::env::args().skip(1).collect();
    let figures: Vec<_> = ids
        .iter()
        .flat_map(|id| {
            if id == "all" {
                qsm_figures::catalogue::all()
            } else {
                qsm_figures::catalogue::find(id)
            }
        })
        .collect();
    let t = std::time::Instant::now();
    let results = qsm_figures::run(
        &figures,
        std::env::var("SEEDS").map_or(99, |s| s.parse().unwrap()),
        &AtomicBool::new(false),
        &P,
    );
    for f in &figures {
        println!("{}", qsm_figures::line(f, &results));
        qsm_figures::write_figure(std::path::Path::new("/tmp/figs"), f, &results).unwrap();
    }
    println!(
        "{:?} {:?} {:?} cpu {:.0}s virtual {:.0}",
        t.elapsed(),
        results.failures,
        results.inputs,
        results.seconds,
        results.virtual_seconds
    );
}

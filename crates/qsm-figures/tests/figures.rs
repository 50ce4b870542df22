//! The catalogue is sound, a run can be stopped, and what there is then is written.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use qsm_figures::{
    Data, Progress, Silent, Verdict, catalogue, judge, run, write_figure, write_page,
};

#[test]
fn experiments_and_sweeps_have_names_of_their_own() {
    let figures = catalogue::all();
    let ids: BTreeSet<&str> = figures.iter().map(|figure| figure.id).collect();
    assert_eq!(ids.len(), figures.len());
    let sweeps: Vec<_> = figures.iter().map(|figure| figure.sweep).collect();
    for one in &sweeps {
        let same = sweeps.iter().filter(|other| other.name == one.name);
        assert!(
            same.clone().all(|other| core::ptr::eq(*one, *other)),
            "{}",
            one.name
        );
    }
    let found: Vec<&str> = catalogue::find("E18")
        .iter()
        .map(|figure| figure.id)
        .collect();
    assert_eq!(found, ["E18", "E18b"]);
    assert!(catalogue::find("E1").is_empty());
}

/// Stops after the first run.
struct Once<'a>(&'a AtomicBool);

impl Progress for Once<'_> {
    fn done(&self, _: usize, _: usize, _: &str, _: f64) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_was_computed_before_an_interruption_is_written_and_passes_no_rule_for_the_rest() {
    let figures = catalogue::find("E16");
    let stop = AtomicBool::new(false);
    let results = run(&figures, 1, &stop, &Once(&stop));
    let folder = std::env::temp_dir().join(format!("qsm-figures-{}", std::process::id()));
    write_figure(&folder, figures[0], &results).unwrap();
    write_page(&folder, &figures, &results).unwrap();
    let csv = std::fs::read_to_string(folder.join("E16.csv")).unwrap();
    let rows = csv.lines().count() - 1;
    assert!((1..8).contains(&rows), "{csv}");
    let svg = std::fs::read_to_string(folder.join("E16.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(page.contains("## E16") && page.contains("E16.svg"));
    assert!(!judge(figures[0], &Data::of(&results, &figures)).passed());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_figure_that_was_run_whole_is_judged_by_its_rules() {
    let figures = catalogue::find("E16");
    let results = run(&figures, 2, &AtomicBool::new(false), &Silent);
    let outcome = judge(figures[0], &Data::of(&results, &figures));
    assert!(outcome.passed(), "{outcome:?}");
    assert!(results.failures.is_empty());
}

#[test]
fn a_single_run_decides_nothing() {
    let figures = catalogue::find("E02");
    let results = run(&figures, 1, &AtomicBool::new(false), &Silent);
    let outcome = judge(figures[0], &Data::of(&results, &figures));
    let mut verdicts = outcome.agrees.iter().map(|check| check.verdict);
    assert!(verdicts.all(|it| it == Verdict::Undecided), "{outcome:?}");
}

#[test]
fn overlapping_groups_form_as_many_regions_as_in_the_paper() {
    let figures = catalogue::find("E02");
    let results = run(&figures, 2, &AtomicBool::new(false), &Silent);
    let outcome = judge(figures[0], &Data::of(&results, &figures));
    assert!(outcome.passed(), "{outcome:?} {:?}", results.failures);
}

#[test]
fn files_hold_what_the_figures_are_judged_by() {
    let figures = catalogue::find("E02");
    let results = run(&figures, 2, &AtomicBool::new(false), &Silent);
    let folder = std::env::temp_dir().join(format!("qsm-figures-files-{}", std::process::id()));
    write_figure(&folder, figures[0], &results).unwrap();
    let read = Data::read(&folder, &figures).unwrap();
    assert_eq!(read, Data::of(&results, &figures));
    std::fs::write(folder.join("E02.csv"), "x\n\"regions\",modern,many\n").unwrap();
    Data::read(&folder, &figures).unwrap_err();
    std::fs::remove_dir_all(folder).unwrap();
}

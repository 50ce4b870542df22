//! The page of figures and what other pages say of it are what the CSV files say.

use std::fs;
use std::path::{Path, PathBuf};

use qsm_figures::papers::Mode;
use qsm_figures::{Data, agreement, catalogue, page};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

#[test]
fn every_number_and_verdict_of_the_page_comes_from_the_files() {
    let folder = repository().join("docs/figures");
    let expected = page(&folder, &catalogue::all()).unwrap();
    let written = text("docs/figures/README.md");
    let differs = expected.lines().zip(written.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(
        expected.len(),
        written.len(),
        "write it anew: make figures-page"
    );
}

#[test]
fn every_experiment_has_its_files() {
    for figure in catalogue::all() {
        for end in ["csv", "svg"] {
            let path = format!("docs/figures/{}.{end}", figure.id);
            assert!(repository().join(&path).exists(), "{path}");
        }
    }
}

#[test]
fn the_page_on_repair_says_what_was_measured() {
    let folder = repository().join("docs/figures");
    let figures = catalogue::find("E59");
    let data = Data::read(&folder, &figures).unwrap();
    let said = |x| {
        let points = data.series(figures[0], Mode::Modern, 0);
        let point = points.iter().find(|point| point.x == x).unwrap();
        format!("{:.2} ± {:.2} round trips among {x}", point.mean, point.ci)
    };
    let page = text("docs/concepts/repair.md").replace("1,000", "1000");
    for x in [25.0, 1000.0] {
        assert!(page.contains(&said(x)), "it must say: {}", said(x));
    }
}

#[test]
fn other_pages_count_the_agreeing_experiments_as_the_page_does() {
    let tally = agreement(&repository().join("docs/figures")).unwrap();
    let all = tally.yes + tally.undecided + tally.no + tally.no_rule;
    let said = format!(
        "of {all} experiments of the papers {} agree, {} do not, {} are undecided, {} have no rule",
        tally.yes, tally.no, tally.undecided, tally.no_rule
    );
    for path in ["docs/reference/status.md", "docs/STATUS.md"] {
        assert!(text(path).contains(&said), "{path} must say: {said}");
    }
}

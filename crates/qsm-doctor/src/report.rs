use core::fmt;

use qsm_metrics::{Object, quoted};

use crate::change::Change;

/// Judgement of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It could not be read.
    Unknown,
    /// It costs latency or CPU time, or is a risk.
    Warning,
    /// Messages are lost, or do not come.
    Fault,
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check; stable.
    pub id: &'static str,
    /// The judgement.
    pub verdict: Verdict,
    /// What was seen.
    pub evidence: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
    /// The remedy, where a program can carry it out.
    pub changes: Vec<Change>,
}

impl Finding {
    pub(crate) fn json(&self) -> String {
        let changes = self.changes.iter();
        Object::new()
            .text("id", self.id)
            .text("verdict", self.verdict.name())
            .text("evidence", &self.evidence)
            .text("remedy", &self.remedy)
            .list("changes", changes.map(|one| quoted(&one.make.to_string())))
            .to_string()
    }
}

/// All findings of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The interface that was examined.
    pub interface: String,
    /// In the order of checks.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The worst of all findings.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.findings.iter().map(|finding| finding.verdict);
        let known = verdicts.filter(|verdict| *verdict != Verdict::Unknown);
        known.max().unwrap_or(Verdict::Ok)
    }

    /// The finding of this check.
    #[must_use]
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }

    /// Number of findings with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.verdict == verdict)
            .count()
    }

    /// The changes of all warnings and faults.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let findings = self.findings.iter();
        let changes = findings.flat_map(|finding| finding.changes.iter().cloned());
        changes.collect()
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        Object::new()
            .text("interface", &self.interface)
            .text("verdict", self.verdict().name())
            .list("findings", self.findings.iter().map(Finding::json))
            .to_string()
    }
}

/// Lines for people: what is wrong with its remedy, and a line for each other check.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.findings.iter().map(|finding| finding.id.len()).max();
        lines(f, &self.findings, width.unwrap_or_default())
    }
}

/// A line for each finding, and one for its remedy.
pub(crate) fn lines(f: &mut fmt::Formatter<'_>, findings: &[Finding], width: usize) -> fmt::Result {
    for finding in findings {
        let (verdict, id) = (finding.verdict.name(), finding.id);
        writeln!(f, "{verdict:<7}  {id:<width$}  {}", finding.evidence)?;
        if !finding.remedy.is_empty() {
            writeln!(f, "{:<9}{:<width$}  remedy: {}", "", "", finding.remedy)?;
        }
    }
    Ok(())
}

//! Findings about peers, for people and as JSON.

use core::fmt;

use qsm_metrics::Object;

use crate::report::{Finding, Verdict, lines};

/// Findings about a host that takes part, or should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFindings {
    /// Its address, or how it was called.
    pub host: String,
    /// Its name; empty if it did not say it.
    pub name: String,
    /// In the order of checks.
    pub findings: Vec<Finding>,
}

/// Findings about what one host sends to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFindings {
    /// Address of the sender.
    pub from: String,
    /// Address of the receiver.
    pub to: String,
    /// In the order of checks.
    pub findings: Vec<Finding>,
}

/// All findings about peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeersReport {
    /// Each host.
    pub hosts: Vec<HostFindings>,
    /// Each direction between two of them.
    pub paths: Vec<PathFindings>,
}

impl PeersReport {
    /// All findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        let hosts = self.hosts.iter().flat_map(|host| &host.findings);
        hosts.chain(self.paths.iter().flat_map(|path| &path.findings))
    }

    /// Number of findings with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings().filter(|one| one.verdict == verdict).count()
    }

    /// The worst of all findings.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.findings().map(|finding| finding.verdict);
        let known = verdicts.filter(|verdict| *verdict != Verdict::Unknown);
        known.max().unwrap_or(Verdict::Ok)
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let hosts = self.hosts.iter().map(|one| {
            Object::new()
                .text("host", &one.host)
                .text("name", &one.name)
                .list("findings", one.findings.iter().map(Finding::json))
                .to_string()
        });
        let paths = self.paths.iter().map(|one| {
            Object::new()
                .text("from", &one.from)
                .text("to", &one.to)
                .list("findings", one.findings.iter().map(Finding::json))
                .to_string()
        });
        Object::new()
            .text("verdict", self.verdict().name())
            .list("hosts", hosts)
            .list("paths", paths)
            .to_string()
    }
}

/// Lines for people: each host and each direction with its findings.
impl fmt::Display for PeersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.findings().map(|finding| finding.id.len());
        let width = widths.max().unwrap_or_default();
        for HostFindings {
            host,
            name,
            findings,
        } in &self.hosts
        {
            match name.is_empty() {
                true => writeln!(f, "{host}")?,
                false => writeln!(f, "{host} ({name})")?,
            }
            lines(f, findings, width)?;
        }
        for PathFindings { from, to, findings } in &self.paths {
            writeln!(f, "{from} -> {to}")?;
            lines(f, findings, width)?;
        }
        Ok(())
    }
}

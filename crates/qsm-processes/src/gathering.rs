//! Metrics of all processes of a group on one page, asked of each when somebody asks for the page.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lab::Namespace;
use qsm::Exporter;
use qsm_console::failure::Failure;
use qsm_console::output;

/// Time that a process has to be reached, and for each part of its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest page of one process, bytes.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Start of the line by which a process says where its metrics are.
const SAID: &str = "qsm: metrics are at http://";

/// Processes that serve metrics, and where.
#[derive(Debug, Clone, Default)]
pub struct Gathering(Arc<Mutex<BTreeMap<usize, Place>>>);

/// Place of a process's metrics.
#[derive(Debug, Clone)]
struct Place {
    address: SocketAddr,
    /// The host's; `None`: this one.
    namespace: Option<Namespace>,
}

impl Gathering {
    /// Serves the metrics of all groups that are told of the gathering, at this address; and says so on stderr.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn serve(address: SocketAddr) -> Result<(Self, Exporter), Failure> {
        let gathering = Self::default();
        let places = gathering.clone();
        let exporter = Exporter::start(address, move || Ok(places.page()))?;
        output::say(format_args!(
            "qsm: metrics of all processes are at {}",
            exporter.url()
        ));
        Ok((gathering, exporter))
    }

    /// Takes note of a line that a process has written. True: it said where its metrics are.
    pub(crate) fn note(&self, process: usize, namespace: Option<&Namespace>, line: &str) -> bool {
        let place = line.strip_prefix(SAID);
        let place = place.and_then(|place| place.split('/').next()?.parse().ok());
        let Some(address) = place else {
            return false;
        };
        let namespace = namespace.cloned();
        let place = Place { address, namespace };
        self.places().insert(process, place);
        true
    }

    /// The processes are ended.
    pub(crate) fn clear(&self) {
        self.places().clear();
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<usize, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What those say that answer. One that has just ended does not.
    fn page(&self) -> String {
        let places: Vec<Place> = self.places().values().cloned().collect();
        let pages = places.iter().filter_map(|place| place.page().ok());
        merge(pages)
    }
}

impl Place {
    fn page(&self) -> io::Result<String> {
        let inside = self.namespace.as_ref().map(Namespace::enter);
        let _inside = inside.transpose().map_err(io::Error::other)?;
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer)?;
        let page = answer.split_once("\r\n\r\n").map(|(_, page)| page);
        page.map(str::to_owned)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Several pages of OpenMetrics as one: the samples of a family stand together, its description once.
fn merge(pages: impl Iterator<Item = String>) -> String {
    let mut order = Vec::new();
    let mut families: BTreeMap<String, (String, String)> = BTreeMap::new();
    for page in pages {
        let mut family = String::new();
        for line in page.lines().filter(|line| *line != "# EOF") {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let name = described.split(' ').next().unwrap_or_default();
                name.clone_into(&mut family);
                if !families.contains_key(name) {
                    order.push(name.to_owned());
                }
            }
            let (head, samples) = families.entry(family.clone()).or_default();
            let to = match line.starts_with('#') {
                true if head.lines().any(|known| known == line) => continue,
                true => head,
                false => samples,
            };
            to.push_str(line);
            to.push('\n');
        }
    }
    let mut all = String::new();
    for (head, samples) in order.iter().filter_map(|name| families.get(name)) {
        all.push_str(head);
        all.push_str(samples);
    }
    all + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_of_several_pages_stands_together() {
        let page = |node: &str| {
            format!(
                "# TYPE a counter\n# HELP a Of a.\na_total{{node=\"{node}\"}} 1\n\
                 # TYPE b gauge\n# HELP b Of b.\nb{{node=\"{node}\"}} 2\n# EOF\n"
            )
        };
        let merged = merge([page("x"), page("y")].into_iter());
        let expected = "# TYPE a counter\n# HELP a Of a.\na_total{node=\"x\"} 1\na_total{node=\"y\"} 1\n\
                        # TYPE b gauge\n# HELP b Of b.\nb{node=\"x\"} 2\nb{node=\"y\"} 2\n# EOF\n";
        assert_eq!(merged, expected);
        assert_eq!(merge(std::iter::empty()), "# EOF\n");
    }

    #[test]
    fn a_process_says_where_its_metrics_are() {
        let gathering = Gathering::default();
        let line = "qsm: metrics are at http://127.0.0.1:4/metrics";
        assert!(gathering.note(1, None, line));
        assert!(!gathering.note(2, None, "qsm: something else"));
        assert_eq!(gathering.places()[&1].address.port(), 4);
        // Nobody is there.
        assert_eq!(gathering.page(), "# EOF\n");
    }
}

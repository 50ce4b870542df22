//! Examines a host for what makes multicast lose packets, come late or not come at all.
//!
//! [`collect`] reads the host into [`Facts`], and [`examine`] judges facts alone: it is a function, so
//! that each verdict is tested with facts that no test machine has. Each [`Finding`] has an id, the
//! evidence, a verdict and the exact remedy. Many remedies are [`Change`]s, which are made and undone
//! by [`Change::make`] and [`undo_script`].
//!
//! ```text
//!  /proc, ip, ethtool, nft ─► collect ─► Facts ─► examine ─► Report ─► Display, to_json()
//!                                                               └────► Change ─► make, undo_script
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `facts` | what is known of a host; all of it may be unknown |
//! | `collect` | where each fact is read |
//! | `firewall` | rules of nftables, and what they do to a packet |
//! | `checks` | the verdicts and their limits |
//! | `change` | changes of a host, and the way back |
//! | `report` | findings, for people and as JSON |
//! | [`peers`] | what passes between hosts, and where it is lost |
//!
//! ```
//! use qsm_doctor::{Facts, Verdict, Wishes, examine};
//!
//! let mut facts = Facts::default();
//! facts.kernel.rmem_max = Some(212_992);
//! let report = examine(&facts, &Wishes::default());
//! let finding = report.finding("receive-buffer").unwrap();
//! assert_eq!(finding.verdict, Verdict::Fault);
//! assert!(finding.remedy.contains("net.core.rmem_max=33554432"));
//! // Nothing else is known of this host.
//! assert_eq!(report.finding("rp-filter").unwrap().verdict, Verdict::Unknown);
//! ```

#![forbid(unsafe_code)]

mod change;
mod checks;
mod collect;
mod facts;
mod firewall;
pub mod peers;
mod report;

pub use change::{Action, Change, undo_script};
pub use checks::{Wishes, examine};
pub use collect::{CollectError, collect};
pub use facts::{Card, Claim, Facts, Growth, Kernel, Kind, Link, Ring};
pub use firewall::{Firewall, Rules};
pub use report::{Finding, Report, Verdict};

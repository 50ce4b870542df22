//! Proof of origin that groups demand of those who publish to them (R-SEC-34).

use qsm_wire::membership::OriginDemand;

/// Groups that demand proof of origin, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// The groups: a name, or the beginning of names in front of a `*`.
    pub names: String,
    /// The line that says so.
    pub line: usize,
    /// The demand on those who publish; `None`: none.
    pub demand: Option<OriginDemand>,
}

/// A demand for proof of origin as a file of hints has it.
pub(crate) fn origin_word(demand: Option<OriginDemand>) -> &'static str {
    match demand {
        None => "off",
        Some(OriginDemand::Audit) => "audit",
        Some(OriginDemand::Verified) => "verified",
    }
}

/// The demand of this word; `None`: it is no such word.
pub(crate) fn demand_of(word: &str) -> Option<Option<OriginDemand>> {
    let demands = [
        None,
        Some(OriginDemand::Audit),
        Some(OriginDemand::Verified),
    ];
    let mut demands = demands.into_iter();
    demands.find(|demand| origin_word(*demand) == word)
}

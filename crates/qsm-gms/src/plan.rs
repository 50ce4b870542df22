//! Which sets of groups are regions, and which multicast address each of them gets.

mod addresses;
mod regions;

pub use self::addresses::{AddressPlan, is_flooded};

pub(crate) use self::addresses::is_usable;
pub(crate) use self::regions::{Knowledge, MemberStay, Region, RegionTable};
pub(crate) use qsm_plan::{Signature, SignatureKey};

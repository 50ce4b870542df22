//! Which sets of groups are regions, and which multicast address each of them gets.

mod addresses;
mod regions;
mod zone;

pub use self::addresses::{AddressPlan, is_flooded};
pub use self::zone::{Stranger, Tenant};

pub(crate) use self::addresses::{addresses_max, is_usable};
pub(crate) use self::regions::{Knowledge, MemberStay, Region, RegionTable};
pub(crate) use self::zone::Zone;
pub(crate) use qsm_plan::{Signature, SignatureKey};

//! Replicas that join while others publish: processes on hosts of a lab, or over loopback where
//! there can be none. Donors, joiners and sequencers are killed, and states compared by their hashes.

pub mod link;
pub mod long;
pub mod round;
pub mod stage;
pub mod told;

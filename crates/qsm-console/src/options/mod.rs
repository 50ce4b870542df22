//! Options that several commands have, with their help texts, and readers of their values.

mod address;
mod attach;
mod costs;
mod help;
mod latency;
mod network;
mod node;
mod quantity;
mod recording;
mod service;
mod stats;
mod threads;

pub use address::Place;
pub use attach::AttachOptions;
pub use costs::{CostOptions, CostSource, KnownCosts};
pub use latency::latency_budget;
pub use network::{Multicast, NetworkOptions, multicast};
pub use node::NodeOptions;
pub use quantity::{Threshold, duration, loss_ppm, seconds, size};
pub use recording::RecordingOptions;
pub use service::ServicePlace;
pub use stats::{StatsFormat, StatsOptions, local_address};
pub use threads::{Cpus, ThreadOptions, cores};

//! Equations for planning a deployment: buffers, latency, interrupts, batching, retention, repair.
//!
//! Each calculator takes quantities with units and gives an [`Advice`]: the equation, what was put
//! in, what comes out, and the source. Nothing is measured here, and nothing of the host is read.
//!
//! ```text
//!  "1Gbit/s" ─► BitRate ─┐
//!                        ├─► calculators::buffer(…) ─► Advice ─► Display, to_json()
//!  "50ms" ───► Seconds ──┘
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `quantity` | units, and quantities read from text and written for people |
//! | `advice` | an answer with equation, inputs, results, source |
//! | [`calculators`] | the equations |
//!
//! ```
//! use qsm_advise::calculators::{OVERHEAD, buffer};
//!
//! let advice = buffer("500Mbit/s".parse().unwrap(), "20ms".parse().unwrap(), OVERHEAD).unwrap();
//! assert_eq!(advice.result("data").unwrap().to_string(), "1.25 MB");
//! assert_eq!(advice.sources[0].section, "8.6");
//! ```

#![forbid(unsafe_code)]

mod advice;
pub mod calculators;
mod quantity;

pub use advice::{Advice, AdviceError, Named, Source};
pub use quantity::{
    BitRate, Bytes, Count, Frequency, Metres, ParseQuantityError, Quantity, Seconds, Share, Unit,
};

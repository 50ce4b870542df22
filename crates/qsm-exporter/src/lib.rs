//! Serves a page of metrics by HTTP: `GET /metrics`, in the format of OpenMetrics 1.0. With the feature
//! `otlp` it sends metrics to a collector.
//!
//! The page is made when somebody asks: nothing is counted, copied or kept for it before.
//!
//! ```text
//!  clients ──► listening queue ──► 4 threads: accept, request (2 s, 8 KiB) ─► page() ─► answer (5 s)
//! ```
//!
//! A client that says nothing, or reads nothing, holds one of the threads for seconds, and nobody
//! else. All that may grow has a limit: [`CLIENTS_MAX`], [`REQUEST_BYTES_MAX`], [`REQUEST_TIME`],
//! [`ANSWER_TIME`].
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use qsm_exporter::Exporter;
//!
//! let exporter = Exporter::start("127.0.0.1:0".parse()?, || Ok("# EOF\n".to_owned()))?;
//! let mut client = TcpStream::connect(exporter.address())?;
//! client.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n# EOF\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod answer;
mod connection;
mod exporter;
#[cfg(feature = "otlp")]
mod pusher;

pub use connection::{ANSWER_TIME, REQUEST_BYTES_MAX, REQUEST_TIME};
pub use exporter::{CLIENTS_MAX, Exporter, ExporterError};
#[cfg(feature = "otlp")]
pub use pusher::{PUSH_TIME, Pusher, PusherError};

//! A dashboard.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::server::{Config, Server};

use super::look::Source;
use super::lookout::Lookout;
use super::router::{Desk, router};

/// A dashboard that is served until it is dropped.
#[derive(Debug)]
pub struct Dash {
    server: Server,
    lookout: Arc<Lookout>,
}

impl Dash {
    /// Serves what `source` sees.
    ///
    /// # Errors
    /// The address is not to be had, or there are no threads.
    pub fn start(config: Config, source: impl Source) -> io::Result<Self> {
        let source: Arc<dyn Source> = Arc::new(source);
        let lookout = Lookout::start(Arc::clone(&source))?;
        let desk = Desk::new(source, Arc::clone(&lookout), config.token);
        let router = router(Arc::new(desk), config.names);
        let server = Server::start(config.listen, router).inspect_err(|_| lookout.end())?;
        Ok(Self { server, lookout })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Dash {
    fn drop(&mut self) {
        self.lookout.end();
    }
}

//! The page of an object.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::server::{Config, Server};

use super::board::Board;
use super::change::{Change, Object};
use super::router::{Desk, router};

/// Page of an object, which is served until it is dropped. Only holders of the token see the object.
#[derive(Debug)]
pub struct ObjectPage {
    server: Server,
    board: Arc<Board>,
}

impl ObjectPage {
    /// Serves an object of which nothing is known yet.
    ///
    /// # Errors
    /// The address is not to be had, or there are no threads.
    pub fn start(config: Config, object: Object) -> io::Result<Self> {
        let board = Arc::new(Board::new(object));
        let desk = Desk::new(Arc::clone(&board), config.token);
        let server = Server::start(config.listen, router(Arc::new(desk), config.names))?;
        Ok(Self { server, board })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Shows a change. It waits for no browser.
    pub fn take(&self, change: Change) {
        self.board.take(change);
    }

    /// Shows a word on the state of the object, and whether all is well.
    pub fn say(&self, well: bool, word: &str) {
        self.board.say(well, word);
    }
}

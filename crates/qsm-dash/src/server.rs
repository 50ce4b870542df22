//! A server of pages: a thread of its own, which accepts a bounded number of connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use crate::gate::Token;

/// Connections at a time; more are closed. A browser has one for its events, and a few for files.
pub const CONNECTIONS_MAX: usize = 64;
/// Time that a client has for the headers of a request.
pub const HEADER_TIME: Duration = Duration::from_secs(10);
/// Pause after the system could not give a connection, as when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// Place and rights of a page.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Word that opens what is not for everybody.
    pub token: Token,
    /// Names by which browsers may reach it, beside addresses and `localhost`.
    pub names: Vec<String>,
}

/// Server of these paths, until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves.
    ///
    /// # Errors
    /// The address is not to be had, or there are no threads.
    pub(crate) fn start(listen: SocketAddr, router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (end, ended) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                // The sender goes with the server, which says the same.
                tokio::select! {
                    () = accept(listener, router) => {}
                    _over = ended => {}
                }
            });
            // Answers under way are not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("dash".to_owned());
        let thread = thread.spawn(serve)?;
        Ok(Self {
            address,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("Server");
        it.field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Its panic has been told on stderr.
            drop(thread.join());
        }
    }
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // Without room it is closed.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve(connection, router).await;
            drop(place);
        });
    }
}

/// Answers the requests of a connection.
async fn serve(connection: TcpStream, router: Router) {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME);
    let service = TowerToHyperService::new(router);
    let served = server.serve_connection(TokioIo::new(connection), service);
    // Whoever goes away in the middle has nobody left to be told.
    let _outcome = served.await;
}

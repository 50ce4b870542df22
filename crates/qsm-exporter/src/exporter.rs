use core::fmt;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::connection;

/// Clients served at a time; more wait in the kernel's queue until one of these has its answer.
pub const CLIENTS_MAX: usize = 4;

/// Pause after the system could not give a connection, as when descriptors are short.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes the page, or says why there is none.
type Page = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Serves a page of metrics until it is dropped.
pub struct Exporter {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    listener: TcpListener,
    page: Page,
    ended: AtomicBool,
    /// The connection of each thread, to be ended with the exporter.
    clients: Mutex<[Option<TcpStream>; CLIENTS_MAX]>,
}

impl Exporter {
    /// Listens at the address; with port 0 at any free one. `page` makes the text of OpenMetrics
    /// each time that it is asked for, or says why it cannot. It runs on threads of the exporter.
    ///
    /// # Errors
    /// [`ExporterError`], whose text says what to do.
    pub fn start(
        address: SocketAddr,
        page: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Result<Self, ExporterError> {
        let fault = |source| ExporterError { address, source };
        let listener = TcpListener::bind(address).map_err(fault)?;
        let bound = listener.local_addr().map_err(fault)?;
        let shared = Arc::new(Shared {
            listener,
            page: Box::new(page),
            ended: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let mut exporter = Self {
            address: bound,
            shared,
            threads: Vec::new(),
        };
        for place in 0..CLIENTS_MAX {
            let shared = Arc::clone(&exporter.shared);
            let thread = thread::Builder::new().name("qsm-exporter".to_owned());
            let thread = thread.spawn(move || shared.work(place)).map_err(fault)?;
            exporter.threads.push(thread);
        }
        Ok(exporter)
    }

    /// The address that it listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the metrics are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.shared.end();
        for thread in self.threads.drain(..) {
            // The page may have held the last handle of what owns this exporter.
            if thread.thread().id() != thread::current().id() {
                // One that panicked has ended, too.
                drop(thread.join());
            }
        }
    }
}

impl Shared {
    fn work(&self, place: usize) {
        while !self.ended.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok((client, _)) => self.serve(client, place),
                Err(_) if self.ended.load(Ordering::Acquire) => return,
                Err(error) if is_of_client(&error) => {}
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn serve(&self, mut client: TcpStream, place: usize) {
        self.clients()[place] = client.try_clone().ok();
        if !self.ended.load(Ordering::Acquire) {
            // A client that is slow or gone is its own affair.
            drop(connection::serve(&mut client, &|| self.page()));
        }
        self.clients()[place] = None;
    }

    /// The page; a panic in it is an answer, too, and ends no thread.
    fn page(&self) -> Result<String, String> {
        let page = catch_unwind(AssertUnwindSafe(|| (self.page)()));
        page.unwrap_or_else(|_| Err("the page of metrics could not be made: a panic".to_owned()))
    }

    fn clients(&self) -> MutexGuard<'_, [Option<TcpStream>; CLIENTS_MAX]> {
        // Places are written at once.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all threads, whatever they wait for.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Linux ends waiting `accept` calls when the listening socket is shut down; the library
        // has that call for connections only.
        if let Ok(listener) = self.listener.try_clone() {
            drop(TcpStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both));
        }
        for client in self.clients().iter().flatten() {
            drop(client.shutdown(Shutdown::Both));
        }
    }
}

/// A connection that ended before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    let kinds = [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
    kinds.contains(&error.kind()) || error.kind() == ErrorKind::Interrupted
}

/// Metrics cannot be served. The text names the cause, and after a semicolon the remedy.
#[derive(Debug)]
pub struct ExporterError {
    /// The address.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: io::Error,
}

impl fmt::Display for ExporterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, source } = self;
        let remedy = match source.kind() {
            ErrorKind::AddrInUse => {
                return write!(
                    f,
                    "cannot serve metrics at {address}: another program listens there; choose \
                     another port, or 0 for any (`ss -ltnp` shows who has it)"
                );
            }
            ErrorKind::AddrNotAvailable => {
                "choose an address of this host (`ip address` lists them)"
            }
            ErrorKind::PermissionDenied => "choose a port above 1023",
            _ => "check the limits of this process with `ulimit -a`",
        };
        write!(f, "cannot serve metrics at {address}: {source}; {remedy}")
    }
}

impl std::error::Error for ExporterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

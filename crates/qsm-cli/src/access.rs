//! Access to pages in the browser: the token, and names of this host.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use qsm_console::failure::Failure;
use qsm_dash::{Config, Token};

/// Options on who sees a page.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessOptions {
    /// Word that the page takes from those who may see everything. Command lines can be read by all users of
    /// a host: see --access-token-file [default: a new one, which is part of the address that is written]
    #[arg(long, value_name = "TOKEN", value_parser = Token::new, conflicts_with = "access_token_file")]
    access_token: Option<Token>,
    /// Read the token from a file
    #[arg(long, value_name = "FILE")]
    access_token_file: Option<PathBuf>,
    /// Name by which browsers may reach the page, beside addresses and localhost; may be given again
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

/// A page's place and rights, and how it is named to the user.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Place and rights.
    pub(crate) config: Config,
    /// Nobody has given a token: it is part of the address.
    drawn: bool,
}

impl AccessOptions {
    /// Tells whether any of them is given.
    pub(crate) fn are_given(&self) -> bool {
        self.has_token() || !self.host.is_empty()
    }

    /// Tells whether a token is given.
    pub(crate) fn has_token(&self) -> bool {
        self.access_token.is_some() || self.access_token_file.is_some()
    }

    /// Access to a page at this address, with the token that is given or a new one.
    ///
    /// # Errors
    /// The token cannot be read, or is none.
    pub(crate) fn at(&self, listen: SocketAddr) -> Result<Access, Failure> {
        let given = self.given_token()?;
        let drawn = given.is_none();
        let token = match given {
            Some(token) => token,
            None => Token::draw().map_err(|error| Failure::io("draw a token", &error))?,
        };
        let names = self.host.clone();
        let config = Config {
            listen,
            token,
            names,
        };
        Ok(Access { config, drawn })
    }

    fn given_token(&self) -> Result<Option<Token>, Failure> {
        let Some(file) = &self.access_token_file else {
            return Ok(self.access_token.clone());
        };
        let text = fs::read_to_string(file);
        let text =
            text.map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))?;
        let token = Token::new(text.trim());
        let wrong = |why| {
            Failure::usage(
                format!("{}: {why}", file.display()),
                "write one with `head -c 16 /dev/urandom | xxd -p > FILE`, readable by its user alone",
            )
        };
        token.map(Some).map_err(wrong)
    }
}

impl Access {
    /// The address to open, of a page that listens there. A token that was given is no part of it.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        // An address that a browser of this host can go to.
        let place = match address.ip().is_unspecified() {
            true => format!("localhost:{}", address.port()),
            false => address.to_string(),
        };
        match self.drawn {
            true => format!("http://{place}/#token={}", self.config.token.text()),
            false => format!("http://{place}/"),
        }
    }
}

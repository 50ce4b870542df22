//! One end's TLS, and its fragments.

use core::fmt;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, KeyChange, Keys, ServerConnection, Version};
use rustls::{ClientConfig, Error, ServerConfig};

use crate::fragments::{FRAGMENTS_MAX, Incoming, Kept};
use crate::frame::{FRAGMENT_BYTES, Fragment, Level};
use crate::identity::public_of;
use crate::session::Secrets;

/// Longest credential, bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 8192;
const LENGTH_BYTES: usize = 2;
/// Name of the server that rustls wants; nobody sees it.
const NAME: &str = "service";

/// One end of a handshake.
pub(crate) struct Engine {
    tls: Connection,
    handshake: Option<Keys>,
    session: Option<Keys>,
    /// Of what TLS writes next.
    writes: Level,
    incoming: Incoming,
    said: u8,
    /// Fragments sent since the other end's last word, to be sent again if they are lost.
    flight: Vec<Kept>,
    answered: bool,
    heard: Vec<u8>,
}

/// Effect of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It has come before.
    Repeated,
    /// Nothing that is to be answered.
    Nothing,
    /// There is a new flight.
    Answer,
}

impl Engine {
    pub(crate) fn client(config: Arc<ClientConfig>) -> Result<Self, Broken> {
        let name = ServerName::try_from(NAME).map_err(|error| Broken::new(&error))?;
        let tls = ClientConnection::new(config, Version::V1, name, Vec::new())?;
        let mut engine = Self::new(tls.into());
        engine.pump()?;
        Ok(engine)
    }

    /// The server's credential goes with its first words, which only the client reads.
    pub(crate) fn server(config: Arc<ServerConfig>, credential: &[u8]) -> Result<Self, Broken> {
        let tls = ServerConnection::new(config, Version::V1, credential.to_vec())?;
        Ok(Self::new(tls.into()))
    }

    fn new(tls: Connection) -> Self {
        Self {
            tls,
            handshake: None,
            session: None,
            writes: Level::Initial,
            incoming: Incoming::default(),
            said: 0,
            flight: Vec::new(),
            answered: false,
            heard: Vec::new(),
        }
    }

    /// The fragments to send, and to send again.
    pub(crate) fn flight(&self) -> impl Iterator<Item = Fragment<'_>> {
        self.flight.iter().map(|kept| Fragment {
            number: kept.number,
            level: kept.level,
            content: &kept.content,
        })
    }

    /// Number of the first fragment of the other end that has not been taken.
    pub(crate) fn next(&self) -> u8 {
        self.incoming.next()
    }

    /// A fragment has come.
    pub(crate) fn take(&mut self, fragment: Fragment<'_>) -> Result<Taken, Broken> {
        if fragment.number < self.incoming.next() {
            return Ok(Taken::Repeated);
        }
        self.incoming.keep(fragment);
        let before = self.said;
        while let Some(kept) = self.incoming.poll() {
            let Some(plain) = self.open(kept) else {
                break;
            };
            self.incoming.taken();
            self.answered = true;
            if self.reads() == Level::Session {
                self.heard.extend_from_slice(&plain);
            } else {
                self.tls.read_hs(&plain)?;
                self.pump()?;
            }
        }
        Ok(if self.said > before {
            Taken::Answer
        } else {
            Taken::Nothing
        })
    }

    /// The level at which the other end speaks now. Nothing of a lower one is believed any more.
    fn reads(&self) -> Level {
        match (&self.handshake, self.tls.is_handshaking()) {
            (_, false) => Level::Session,
            (Some(_), true) => Level::Handshake,
            (None, true) => Level::Initial,
        }
    }

    fn open(&self, mut kept: Kept) -> Option<Vec<u8>> {
        if kept.level != self.reads() {
            return None;
        }
        let keys = match kept.level {
            Level::Initial => return Some(kept.content),
            Level::Handshake => self.handshake.as_ref()?,
            Level::Session => self.session.as_ref()?,
        };
        let known = [kept.number, kept.level.code()];
        let number = u64::from(kept.number);
        let plain = keys
            .remote
            .packet
            .decrypt_in_place(number, &known, &mut kept.content);
        plain.ok().map(<[u8]>::to_vec)
    }

    /// Takes what TLS has to say.
    fn pump(&mut self) -> Result<(), Broken> {
        loop {
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            if bytes.is_empty() && change.is_none() {
                return Ok(());
            }
            self.cut(self.writes, &bytes)?;
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.handshake = Some(keys);
                    self.writes = Level::Handshake;
                }
                Some(KeyChange::OneRtt { keys, .. }) => {
                    self.session = Some(keys);
                    self.writes = Level::Session;
                }
                None => {}
            }
        }
    }

    /// Says something when TLS has done its part: a message with its length in front.
    pub(crate) fn say(&mut self, message: &[u8]) -> Result<(), Broken> {
        let length = u16::try_from(message.len()).map_err(|error| Broken::new(&error))?;
        self.cut(Level::Session, &[&length.to_le_bytes(), message].concat())
    }

    /// The message that the other end has said, when all of it has come.
    pub(crate) fn heard(&self) -> Option<&[u8]> {
        let (length, rest) = self.heard.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..usize::from(u16::from_le_bytes(*length)))
    }

    /// Each fragment is made once: a number, which is its nonce, never has another content.
    fn cut(&mut self, level: Level, bytes: &[u8]) -> Result<(), Broken> {
        for piece in bytes.chunks(FRAGMENT_BYTES) {
            if self.said >= FRAGMENTS_MAX {
                return Err(Broken::new(&"more to say than a handshake may have"));
            }
            if core::mem::take(&mut self.answered) {
                self.flight.clear();
            }
            let number = self.said;
            let mut content = piece.to_vec();
            let keys = match level {
                Level::Initial => None,
                Level::Handshake => self.handshake.as_ref(),
                Level::Session => self.session.as_ref(),
            };
            if let Some(keys) = keys {
                let known = [number, level.code()];
                let packet = &keys.local.packet;
                let tag = packet.encrypt_in_place(number.into(), &known, &mut content)?;
                content.extend_from_slice(tag.as_ref());
            } else if level != Level::Initial {
                return Err(Broken::new(&"there are no keys yet"));
            }
            self.flight.push(Kept {
                number,
                level,
                content,
            });
            self.said += 1;
        }
        Ok(())
    }

    /// True when TLS has done its part: the other end has proven its key.
    pub(crate) fn is_proven(&self) -> bool {
        !self.tls.is_handshaking() && self.session.is_some()
    }

    /// The other end's key.
    pub(crate) fn peer(&self) -> Result<[u8; 32], Broken> {
        let shown = self.tls.peer_certificates().and_then(|keys| keys.first());
        shown
            .and_then(public_of)
            .ok_or_else(|| Broken::new(&"no key was shown"))
    }

    /// The credential that came with the server's first words.
    pub(crate) fn server_credential(&self) -> &[u8] {
        self.tls.quic_transport_parameters().unwrap_or_default()
    }

    /// True if the key exchange was the hybrid one.
    pub(crate) fn is_hybrid(&self) -> bool {
        let group = self.tls.negotiated_key_exchange_group();
        group.is_some_and(|group| group.name() == rustls::NamedGroup::X25519MLKEM768)
    }

    pub(crate) fn secrets(&self) -> Result<Secrets, Broken> {
        let mut secrets = Secrets {
            to_server: [0; 32],
            to_client: [0; 32],
        };
        for (label, secret) in [
            ("qsm session 1 to server", &mut secrets.to_server),
            ("qsm session 1 to client", &mut secrets.to_client),
        ] {
            self.tls
                .export_keying_material(secret, label.as_bytes(), None)?;
        }
        Ok(secrets)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("writes", &self.writes)
            .field("said", &self.said)
            .field("next", &self.incoming.next())
            .finish_non_exhaustive()
    }
}

/// Why a handshake cannot go on: the other end speaks something else, or somebody on the way changed its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Reason.
    pub reason: String,
}

impl Broken {
    fn new(reason: &dyn fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
        }
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::new(&error)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Broken {}

//! Identity of a relay, source or receiver, and the links that follow from it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use qsm::Identity;
use qsm_console::failure::Failure;
use qsm_identity::{Grant, Revocations, Role, Roster, TokenError};
use qsm_link::{Link, PlainLink, QuicLink, Settings};

use super::events::warn_of_openness;
use crate::commands::authority;

/// Options by which links are protected.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Protection")]
pub(crate) struct GuardArgs {
    /// File with the key of this end, as `qsm keygen --node` makes it: links are encrypted, and both
    /// ends show tokens. All ends of a stream need one [default: NOTHING IS ENCRYPTED OR AUTHENTICATED]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// File with the token, as `qsm token new` makes it [default: that of --identity, with the ending .token]
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub(crate) token: Option<PathBuf>,
    /// File with the public key of the cluster's root [default: root.pub beside --identity]
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub(crate) root: Option<PathBuf>,
    /// Name of this end; its token must allow it [default: the name in the token]
    #[arg(long = "name", value_name = "NAME", requires = "identity")]
    pub(crate) called: Option<String>,
}

/// Task of an end of links.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// Pass streams on.
    Relay,
    /// Publish this stream.
    Source(&'a str),
    /// Receive this stream.
    Receiver(&'a str),
}

impl GuardArgs {
    /// Links of this end; without an identity they are open, and that is said loudly.
    ///
    /// # Errors
    /// A file cannot be used, or the token does not allow this.
    pub(super) fn links(&self, place: Place<'_>, life: u64) -> Result<Box<dyn Link>, Failure> {
        let Some(key) = &self.identity else {
            warn_of_openness();
            return Ok(Box::new(PlainLink::new()));
        };
        let token = self.token.clone();
        let token = token.unwrap_or_else(|| key.with_extension("token"));
        let root = self.root.clone();
        let root = root.unwrap_or_else(|| key.with_file_name("root.pub"));
        let identity = Identity::read(key, token, &root)
            .map_err(|error| Failure::usage(error.cause(), error.remedy()))?;
        let now = authority::now()?;
        let (Some(token), Some(root_key)) = (identity.token(), identity.root()) else {
            return Err(Failure::usage(
                "links of relays take tokens, and no certificates",
                "have a token made by `qsm token new`",
            ));
        };
        let claims = token.claims();
        let cluster = claims.cluster.clone();
        let granted = token.verify(&root_key, now, &cluster);
        let grant = granted.map_err(|error| refused(&error))?;
        check_key(&grant, &identity)?;
        let name = self.called.clone().or_else(|| {
            let name = &claims.name;
            name.is_name().then(|| name.as_str().to_owned())
        });
        let name = name.ok_or_else(|| {
            let pattern = claims.name.as_str();
            Failure::usage(
                format!("the token is for any name like {pattern:?}, and this end has none"),
                "give it one with --name",
            )
        })?;
        check(&grant, &name, place)?;
        let mut roster = Roster::new(cluster, root_key);
        revoke(&mut roster, &root.with_file_name("revoked.list"))?;
        let settings = Settings {
            identity: qsm_handshake::Identity::from_seed(identity.key().seed())
                .map_err(|error| Failure::failed(error.to_string(), "make another key"))?,
            token: token.clone(),
            name,
            life,
            roster,
            takes_children: !matches!(place, Place::Receiver(_)),
            epoch: now,
        };
        let links = QuicLink::new(settings);
        let links = links.map_err(|error| Failure::failed(error.to_string(), "start it again"))?;
        Ok(Box::new(links))
    }
}

fn refused(error: &TokenError) -> Failure {
    let remedy = match error {
        TokenError::NotYet { .. } => "compare the clocks of both hosts",
        _ => "have another made by `qsm token new`",
    };
    Failure::usage(error.to_string(), remedy)
}

fn check_key(grant: &Grant, identity: &Identity) -> Result<(), Failure> {
    match grant.node_key() {
        Some(key) if key != identity.public() => Err(Failure::usage(
            "the token is bound to another node's key",
            "use the key that it was made for, or have a token made for this one",
        )),
        _ => Ok(()),
    }
}

/// Checks that the token allows what this end is to do.
fn check(grant: &Grant, name: &str, place: Place<'_>) -> Result<(), Failure> {
    let another = "have another token made, or use one that allows it";
    if !grant.may_join(name) {
        let cause = format!("the token does not allow the name {name:?}");
        return Err(Failure::usage(cause, another));
    }
    let (allowed, wanted) = match place {
        Place::Relay => (
            grant.roles().has(Role::Relay),
            "relays; `qsm token new --role relay` makes one that does".to_owned(),
        ),
        Place::Source(stream) => (
            grant.may_publish(stream),
            format!("publishing {stream:?}; `qsm token new --publish` names streams"),
        ),
        Place::Receiver(stream) => (
            grant.may_subscribe(stream),
            format!("receiving {stream:?}; `qsm token new --subscribe` names streams"),
        ),
    };
    let is_parent = !matches!(place, Place::Receiver(_));
    match (allowed, grant.node_key()) {
        (true, None) if is_parent => Err(Failure::usage(
            "the token of a relay or source is bound to its key, and this one to none",
            "have another made by `qsm token new --node KEY`",
        )),
        (true, _) => Ok(()),
        (false, _) => Err(Failure::usage(
            format!("the token does not allow {wanted}"),
            another,
        )),
    }
}

/// Takes the list of revocations, if there is one.
fn revoke(roster: &mut Roster, path: &Path) -> Result<(), Failure> {
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(());
    };
    let shown = path.display();
    let failed = |cause: String| {
        let cause = format!("{shown}: {cause}");
        Failure::usage(
            cause,
            "copy the list again, as `qsm token revoke` writes it",
        )
    };
    let list = text.trim().parse::<Revocations>();
    let taken = list.and_then(|list| roster.update(list));
    taken.map(drop).map_err(|error| failed(error.to_string()))
}

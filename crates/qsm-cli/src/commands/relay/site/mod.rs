//! A site's gateway: a node of its cluster, the source of a stream of the site, and a receiver of other sites'. Rules
//! R-RELAY-26 to R-RELAY-30, with other gateways of the site R-RELAY-60 to R-RELAY-63.

mod account;
mod end;
mod gate;
mod inward;
mod names;
mod outgoing;
mod outward;
mod packets;
mod parts;
mod portrait;
mod publishing;
mod sorting;
mod stats;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use qsm::{Builder, Embedded, GroupOptions, Node, Pattern, Subscription};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::names::Names;
use qsm_console::notice::Notices;
use qsm_console::options::{AttachOptions, NodeOptions, StatsOptions, loss_ppm, size};
use qsm_console::stop::Stop;
use qsm_relay::WINDOW_MAX;
use serde_json::json;

use self::account::Accounts;
use self::end::End;
use self::gate::GateBooks;
use self::inward::{Gate, Inward};
pub(crate) use self::names::site_name;
use self::names::{Remote, remote, stream_of};
use self::outgoing::Outgoing;
use self::outward::Outward;
use self::parts::{Common, Piece};
use self::portrait::Portrait;
use self::publishing::{Publishing, WAITING_MAX};
use self::sorting::Sorting;
use self::stats::SiteCounts;
use self::turns::Turns;
use super::account::Books;
use super::content::ContentArgs;
use super::ecn::Ecn;
use super::events::Events;
use super::guard::{GuardArgs, Place};
use super::input::Input;
use super::place::{LISTEN, parent_address};
use super::port::Port;
use super::publisher::{Audience, Origin, Publisher};
use super::stream::ParityMode;
use crate::commands::subscribe::Full;
use crate::group_name::check_pattern;
use crate::node;

/// Time between two looks at events of the node.
const LOOK: Duration = Duration::from_millis(100);
/// Most gateways of another site.
const GATEWAYS_MAX: usize = 8;
/// Most time for saying goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `qsm relay site`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm relay site fra --group 'prices/**' --from lon=gateway.lon.example:4490   in Frankfurt"
    "qsm relay site lon --group 'prices/**' --from fra=gateway.fra.example:4490   in London"
    "qsm relay site fra --group news --from lon=gateway.lon.example:4490 --link-identity fra.key"
    "qsm relay site fra --group news --from lon=a.lon.example:4490,lon=b.lon.example:4490   two in London"
))]
pub(crate) struct SiteArgs {
    /// Name of this site; each has another, at all gateways the same
    #[arg(value_name = "SITE", value_parser = site_name)]
    pub(crate) site: String,
    /// Groups that sites have in common, names or patterns. The gateway reads all messages to them
    #[arg(long, required = true, value_name = "GROUP")]
    pub(crate) group: Vec<String>,
    /// Another site, by its name, and its gateway or a relay between; a site with two gateways twice. Without one,
    /// messages only go out
    #[arg(long, value_name = "SITE=HOST:PORT", value_delimiter = ',', value_parser = remote)]
    pub(crate) from: Vec<Remote>,
    /// Where other sites' gateways reach this one; to them it speaks from this address, too, and any port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Send other sites no more, bytes a second with the headers of IP and UDP; with suffix k, M or G
    /// [default: as fast as the slowest of them can take it]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) max_rate: Option<usize>,
    /// Packets that are kept for other sites, of at most 1,200 bytes; when so many are not acknowledged, no
    /// more messages are read
    #[arg(long, value_name = "PACKETS", default_value = "16384", value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX))]
    pub(crate) window: u64,
    /// Memory for this site's messages that wait to be sent, with suffix k, M or G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size)]
    pub(crate) queue: usize,
    /// Memory for messages of another site, each, that another gateway of this one publishes: they are kept until
    /// everybody has them, and published if it ceases; with suffix k, M or G
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size)]
    pub(crate) standby: usize,
    /// Policy where other sites are slower than this one's publishers, and that memory is full
    #[arg(long, value_name = "POLICY", default_value = "hold")]
    pub(crate) overflow: Full,
    /// Write what happens as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Protection between sites.
    #[command(flatten)]
    pub(crate) links: LinkArgs,
    /// Counters.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
    /// The node in this site's cluster.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

/// Options by which links between sites are protected.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Links to other sites")]
pub(crate) struct LinkArgs {
    /// File with the key of this gateway, as `qsm keygen --node` makes it: links are encrypted, and all
    /// gateways show tokens [default: NOTHING IS ENCRYPTED OR AUTHENTICATED BETWEEN SITES]
    #[arg(long, value_name = "FILE")]
    pub(crate) link_identity: Option<PathBuf>,
    /// File with its token, for this site's name, with `--publish site/NAME` and `--subscribe 'site/*'`
    /// [default: that of --link-identity, with the ending .token]
    #[arg(long, value_name = "FILE", requires = "link_identity")]
    pub(crate) link_token: Option<PathBuf>,
    /// File with the public key of the root that all sites trust [default: root.pub beside --link-identity]
    #[arg(long, value_name = "FILE", requires = "link_identity")]
    pub(crate) link_root: Option<PathBuf>,
    /// Protection from relays between.
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Send other sites parity ahead of requests, where the way there is long and its first hop loses packets: a loss
    /// then costs no round trip. At most a quarter of what they get; none where nothing is lost, or much
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) link_parity: ParityMode,
    /// Marks of congestion in the header of IP (ECN) between sites, by which a queue says that it grows
    #[arg(long, value_name = "USE", default_value = "on")]
    pub(crate) link_ecn: Ecn,
    /// Lose this share of what comes from other gateways, on purpose
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) link_loss: u32,
}

impl SiteArgs {
    fn open(&self, listen: SocketAddr, place: Place<'_>) -> Result<Port, Failure> {
        let guard = GuardArgs {
            identity: self.links.link_identity.clone(),
            token: self.links.link_token.clone(),
            root: self.links.link_root.clone(),
            called: Some(self.site.clone()),
        };
        let mut port = Port::open(listen, self.links.link_loss, &guard, place)?;
        port.use_ecn(self.links.link_ecn);
        Ok(port)
    }

    /// A port for each gateway of other sites, and where it is.
    fn open_gates(&self) -> Result<Vec<Gate>, Failure> {
        let own = SocketAddr::new(self.listen.ip(), 0);
        let opened = self.gateways().into_iter().flat_map(|(site, parents)| {
            let parents = parents.into_iter().enumerate();
            parents.map(move |(gateway, parent)| {
                let port = self.open(own, Place::Receiver(&stream_of(site)))?;
                let parent = parent_address(parent, port.address()?)?;
                let site = site.to_owned();
                Ok(Gate {
                    site,
                    gateway,
                    port,
                    parent,
                    books: GateBooks::default(),
                })
            })
        });
        opened.collect()
    }

    /// Where the gateways of each other site are.
    fn gateways(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut sites = BTreeMap::<&str, Vec<&str>>::new();
        for Remote { site, parent } in &self.from {
            sites.entry(site).or_default().push(parent);
        }
        sites
    }

    /// Checks what options say together.
    fn check(&self) -> Result<Vec<Pattern>, Failure> {
        let site = &self.site;
        let gateways = self.gateways();
        if gateways.contains_key(&**site) {
            return Err(Failure::usage(
                format!("two sites are called {site}"),
                "give each site, and this one, another name, at all gateways the same; other gateways of this \
                 site are not named",
            ));
        }
        let mut places = BTreeSet::new();
        for Remote { parent, .. } in &self.from {
            if !places.insert(parent) {
                return Err(Failure::usage(
                    format!("two gateways are at {parent}"),
                    "name each once; a relay passes on what its own parent has, of one gateway",
                ));
            }
        }
        if let Some((other, _)) = gateways.iter().find(|(_, all)| all.len() > GATEWAYS_MAX) {
            return Err(Failure::usage(
                format!("site {other} has more than {GATEWAYS_MAX} gateways"),
                "name fewer of them: two are enough for one of them to fail",
            ));
        }
        self.group.iter().map(|name| check_pattern(name)).collect()
    }

    /// Receivers of other sites' gateways, and what publishes their messages: one for each site.
    fn inwards(
        &self,
        gates: Vec<Gate>,
        patterns: &[Pattern],
        node: &Node,
        common: &Common,
    ) -> Result<(Vec<Inward>, Vec<Published>), Failure> {
        let (mut publishing, mut puts) = (Vec::new(), BTreeMap::new());
        for other in self.gateways().into_keys() {
            let of_site = gates.iter().filter(|gate| gate.site == other);
            let books = of_site.map(|gate| gate.books.clone()).collect();
            let sorting = Sorting::new(other, books, patterns, common);
            let (put, packets) = sync_channel(WAITING_MAX);
            publishing.push((Publishing::new(other, node, sorting, common), packets));
            puts.insert(other, put);
        }
        let inward = |gate: Gate| {
            let put = puts[&*gate.site].clone();
            Inward::new(gate, &self.links.content, put, common)
        };
        let inwards: Result<Vec<Inward>, Failure> = gates.into_iter().map(inward).collect();
        Ok((inwards?, publishing))
    }

    /// Its turns among gateways of its site: of two that publish the one with the lower number of a node goes on.
    fn turns(&self, node: &Node) -> Turns {
        let rank = node.ids().map(|id| id.0).min().unwrap_or_default();
        let gateways = self.gateways();
        let sites = gateways.iter().map(|(site, all)| (*site, all.len()));
        Turns::new(rank, self.standby, sites)
    }

    fn subscribe(&self, node: &Node) -> Result<Subscription, Failure> {
        let options = GroupOptions::default().overflow(self.overflow.into());
        let groups = self.group.iter().collect::<BTreeSet<_>>();
        let groups = node
            .groups(groups)
            .options(options.capacity_bytes(self.queue));
        let none = AttachOptions { attach: None };
        let entered = groups.subscribe();
        entered.map_err(|error| node::not_entered(error, node, &self.node, &none))
    }
}

/// Publishing of a site's messages, and packets that it takes them out of.
type Published = (Publishing, Receiver<Piece>);

/// Parts of a gateway, before they run.
struct Gateway {
    node: Node,
    outward: Outward,
    inwards: Vec<Inward>,
    publishing: Vec<Published>,
    accounts: Accounts,
    notices: Notices,
    end: Arc<End>,
}

/// Runs a gateway until a signal.
pub(super) fn run(args: &SiteArgs) -> Result<(), Failure> {
    let patterns = args.check()?;
    let stop = Stop::on_signals()?;
    let gateway = Gateway::start(args, &patterns, &stop)?;
    let Gateway {
        node,
        outward,
        inwards,
        publishing,
        accounts,
        mut notices,
        end,
    } = gateway;
    let served = accounts.serve(&node, args.stats)?;
    thread::scope(|scope| {
        let ends = &end;
        scope.spawn(move || ends.take(outward.run()));
        for inward in inwards {
            scope.spawn(move || ends.take(inward.run()));
        }
        for (publishing, packets) in publishing {
            scope.spawn(move || publishing.run(&packets));
        }
        let mut portrait = Portrait::new(&args.site, &args.group, &node, &accounts);
        while !end.is_near() {
            notices.drain();
            portrait.turn();
            thread::sleep(LOOK);
        }
    });
    drop(served);
    notices.drain();
    accounts.say(&node, args.stats);
    let counted = accounts.object();
    drop(node::shut_down(&node, GOODBYE));
    end.outcome()?;
    Events { json: args.json }.say(
        "stopped",
        &json!({ "event": "stopped", "counters": counted }),
    )
}

impl Gateway {
    fn start(args: &SiteArgs, patterns: &[Pattern], stop: &Stop) -> Result<Self, Failure> {
        let site = &args.site;
        let stream = stream_of(site);
        let content = &args.links.content;
        let sealer = content.sealer(&stream)?;
        let port = args.open(args.listen, Place::Source(&stream))?;
        let listening = port.address()?;
        let gates = args.open_gates()?;
        // What it publishes itself has come from other sites, and never leaves.
        let outward = |builder: Builder| builder.own_messages(false);
        let node = node::start_own(&args.node, Embedded::IfNoneFound, outward)?;
        let mut notices = Notices::new(&node, &args.node);
        let names = Names::default();
        notices.find_names(&names)?;
        let subscription = args.subscribe(&node)?;
        let (counts, end) = (
            Arc::new(SiteCounts::default()),
            Arc::new(End::new(stop.clone())),
        );
        Events { json: args.json }.say(
            &format!("gateway of site {site} listening at {listening}"),
            &json!({ "event": "listening", "site": site, "address": listening }),
        )?;
        let common = Common {
            turns: Arc::new(args.turns(&node)),
            counts: Arc::clone(&counts),
            end: Arc::clone(&end),
            json: args.json,
        };
        let (inwards, publishing) = args.inwards(gates, patterns, &node, &common)?;
        let outgoing = Outgoing {
            site: site.clone(),
            node: node.clone(),
            names,
            subscription,
            sealer,
            counts: Arc::clone(&counts),
            turns: Arc::clone(&common.turns),
            end: Arc::clone(&end),
        };
        let origin = Origin {
            stream,
            is_sealed: content.content_key.is_some(),
            window: args.window,
            max_rate: args.max_rate,
            parity: args.links.link_parity,
            audience: Audience::Present,
        };
        let outward = Outward {
            publisher: Publisher::new(&origin, port),
            input: Input::of("site", move |feeder| outgoing.run(feeder))?,
            books: Books::default(),
            audience: Arc::default(),
            counts: Arc::clone(&counts),
            end: Arc::clone(&end),
            json: args.json,
        };
        Ok(Self {
            accounts: Accounts {
                counts,
                source: outward.books.clone(),
                audience: Arc::clone(&outward.audience),
                turns: common.turns,
                receivers: inwards.iter().map(Inward::books).collect(),
            },
            node,
            outward,
            inwards,
            publishing,
            notices,
            end,
        })
    }
}

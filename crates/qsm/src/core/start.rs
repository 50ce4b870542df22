//! Opening sockets and starting the core thread.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

use qsm_net::{Interface, Port};
use qsm_proto::{Config, Endpoint, Seed};
use qsm_wire::NodeId;

use super::{About, Clock, Core, Embedding, Load, Pending, Readers, Routes, Sources, Transmitter};
use crate::builder::{Builder, ThreadOptions, check_name};
use crate::error::{CloseReason, StartError};
use crate::node::{Handle, Node};
use crate::outlet::Gate;
use crate::shared::Shared;
use crate::snapshot::RuntimeStats;

/// What Ethernet carries in one packet.
const ETHERNET_BYTES: usize = 1500;
/// The same for jumbo frames, which every loopback interface carries: there is no switch to ask.
const JUMBO_BYTES: usize = 9000;

pub(crate) fn start(mut builder: Builder) -> Result<Node, StartError> {
    check_name("cluster", &builder.cluster)?;
    let id = NodeId(random());
    let name = config_name(builder.name.as_deref(), id)?;
    let interface = builder.network.interface(builder.service)?;
    let discovery = builder.network.discovery(interface.family());
    // An embedded service is to choose alike.
    builder.network.family = Some(interface.family());
    builder.network.discovery = Some(discovery);
    let mut port = Port::open(builder.network.port_config(interface.clone()))?;
    port.join(discovery)?;
    let config = config(&builder, &name, id, (&interface, &port));
    let clock = Clock::start();
    let now = clock.now();
    let endpoint = Endpoint::new(config, Seed(random()), now)?;
    let gate = Gate::new(builder.queues);
    let message_bytes_max = builder.limits.message_bytes;
    let shared = Arc::new(Shared::new(
        gate,
        message_bytes_max,
        builder.request_timeout,
        port.waker(),
    ));
    let options = builder.thread;
    let core = Core {
        shared: Arc::clone(&shared),
        clock,
        now,
        spin: options.spin,
        endpoint,
        port,
        routes: Routes::default(),
        sources: Sources::default(),
        pending: Pending::default(),
        readers: Readers::default(),
        transmitter: Transmitter::new(builder.tap.clone()),
        tap: builder.tap.clone(),
        about: About {
            name,
            cluster: builder.cluster.clone(),
            service: None,
        },
        embedding: Embedding::new(&builder),
        closing: None,
        stats: RuntimeStats::default(),
        load: Load::default(),
    };
    let thread = Mutex::new(Some(spawn(core, options)?));
    Ok(Node {
        handle: Arc::new(Handle { shared, thread, id }),
    })
}

/// A random number of the operating system's making; every hash table of this process gets its
/// keys in the same way.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn config_name(name: Option<&str>, id: NodeId) -> Result<String, StartError> {
    let name = name.map_or_else(|| format!("{:x}", id.0), str::to_owned);
    check_name("node", &name)?;
    Ok(name)
}

fn config(
    builder: &Builder,
    name: &str,
    id: NodeId,
    (interface, port): (&Interface, &Port),
) -> Config {
    let mtu = usize::try_from(interface.mtu).unwrap_or(usize::MAX);
    let usual = if interface.loopback {
        JUMBO_BYTES
    } else {
        ETHERNET_BYTES
    };
    let headers = interface.family().header_bytes();
    let fits = mtu.min(usual).saturating_sub(headers);
    Config {
        name: name.to_owned(),
        cluster: builder.cluster.clone(),
        discovery: builder.network.discovery(interface.family()),
        service: builder.service,
        layout: builder.layout,
        datagram_bytes: builder.datagram_bytes.unwrap_or(fits),
        receive_buffer_bytes: port.receive_buffer_granted(),
        limits: builder.limits,
        recovery: builder.recovery,
        pace: builder.pace,
        ..Config::new(id, port.local_addr())
    }
}

fn spawn(core: Core, options: ThreadOptions) -> Result<thread::JoinHandle<()>, StartError> {
    let (ready, started) = sync_channel(1);
    let body = move || {
        let pinned = options.cpu.map_or(Ok(()), qsm_net::pin_to_cpu);
        let failed = pinned.is_err();
        // `start` waits for this.
        drop(ready.send(pinned));
        if !failed {
            run(core);
        }
    };
    let system = |doing| move |source| StartError::System { doing, source };
    let thread = thread::Builder::new()
        .name("qsm-core".to_owned())
        .spawn(body)
        .map_err(system("start the core thread"))?;
    // The thread sends before anything that could end it.
    if let Ok(pinned) = started.recv() {
        pinned.map_err(system("run the core thread on the CPU asked for"))?;
    }
    Ok(thread)
}

fn run(mut core: Core) {
    core.shared.started();
    core.embed_at_start();
    let shared = Arc::clone(&core.shared);
    // Upcalls and feeds are the application's code. After a panic nothing of the protocol runs
    // again; the handles are told, and the state is only dropped.
    let outcome = catch_unwind(AssertUnwindSafe(|| core.run()));
    let reason = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        CloseReason::Panicked {
            message: text.unwrap_or_else(|| "no message".to_owned()),
        }
    });
    let finished = catch_unwind(AssertUnwindSafe(|| core.finish(reason.clone())));
    if finished.is_err() {
        shared.finish(reason, None);
    }
}

//! Pauses, blackouts and interfaces that are down, for a second, on each transport but the plain one:
//! nobody misses anything, and everybody goes on in the same life.

use std::path::Path;
use std::time::Duration;

use qsm_system::transport::Transport;
use qsm_system::trial::{Fault, Load, Role, Trial};

/// Rules R-VIEW-12, R-VIEW-13, R-VIEW-14, R-MEM-15.
fn nothing_is_lost(transport: Transport, role: Role, fault: Fault) {
    if !lab::ready() {
        return;
    }
    let trial = Trial {
        role,
        fault,
        lasts: Duration::from_secs(1),
        load: Load {
            bytes: 300,
            rate: 2000,
        },
        transport,
        receivers: 3,
        calm: Duration::from_millis(500),
        service_options: Vec::new(),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_system-node"));
    let outcome = trial.run(program).unwrap();
    // Without any nothing would have been tried.
    let published = outcome.rates.iter().all(|rate| *rate > 100);
    assert!(
        published && outcome.is_whole(),
        "{outcome} {:?}",
        outcome.ranges
    );
}

macro_rules! transports {
    ($($module:ident: $transport:ident),*) => {
        $(mod $module {
            use super::{Fault, Role, Transport, nothing_is_lost};

            #[test]
            fn a_receiver_stands_still() {
                nothing_is_lost(Transport::$transport, Role::Receiver, Fault::Pause);
            }

            #[test]
            fn a_receiver_is_cut_off() {
                nothing_is_lost(Transport::$transport, Role::Receiver, Fault::Blackout);
            }

            #[test]
            fn a_sender_stands_still() {
                nothing_is_lost(Transport::$transport, Role::Sender, Fault::Pause);
            }

            #[test]
            #[ignore = "`pauses.rs` has it on two transports; `make pauses` runs it on all"]
            fn the_interfaces_of_a_receiver_are_down() {
                nothing_is_lost(Transport::$transport, Role::Receiver, Fault::LinkDown);
            }
        })*
    };
}

transports! {
    ipv6: Ipv6,
    no_multicast: NoMulticast,
    clones: Clones,
    protected: Protected,
    source_specific: SourceSpecific,
    two_networks: TwoNetworks,
    two_cores: Cores,
    engine: Engine
}

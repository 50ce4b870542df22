//! Errors name the cause and the remedy.

mod common;

use common::{config, group, open};
use qsm_net::{InterfaceError, Offload, Port, PortConfig, PortError, Ready, choose_interface};

#[test]
fn a_busy_port_is_named() {
    let first = open(Offload::Auto);
    let unicast_port = first.local_addr().port();
    let error = Port::open(PortConfig {
        unicast_port,
        ..config()
    })
    .unwrap_err();
    assert!(matches!(error, PortError::AddressInUse { address } if address == first.local_addr()));
    let expected = format!(
        "UDP port {unicast_port} of 127.0.0.1 is in use by another process; choose another port, or 0 for any, \
         or find the owner with `ss -ulnp 'sport = {unicast_port}'`"
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_unknown_interface_lists_those_that_exist() {
    let error = choose_interface(Some("no-such-interface"), None).unwrap_err();
    assert!(matches!(&error, InterfaceError::Unknown { existing, .. } if !existing.is_empty()));
    let text = error.to_string();
    assert!(
        text.starts_with("no interface has the name or address \"no-such-interface\""),
        "{text}"
    );
    assert!(text.contains("lo (127.0.0.1"), "{text}");
}

#[test]
fn a_vanished_address_is_named() {
    let mut config = config();
    // Of the block for documentation (RFC 5737); no interface has it.
    config.interface.addr = "203.0.113.77".parse().unwrap();
    let error = Port::open(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this host no longer has the address 203.0.113.77; choose the interface again"
    );
}

#[test]
fn a_vanished_interface_is_named() {
    let mut config = config();
    config.interface.index = i32::MAX as u32;
    // The unicast socket names the interface too, so the error comes first there.
    let error = Port::open(config).unwrap_err();
    assert!(
        matches!(error, PortError::InterfaceGone { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("`ip link show lo`"), "{error}");
}

/// A host that answers "nobody listens there" disturbs neither the next send nor the next receive, and is counted once.
#[test]
fn refusals_are_counted_and_disturb_nothing() {
    // An address of the loopback network nobody binds, at the port of a service nobody offers any more.
    let nobody = "127.93.1.7:1".parse().unwrap();
    let group = group();
    for offload in [Offload::Auto, Offload::Off] {
        let mut port = open(offload);
        port.join(group).unwrap();
        port.send(nobody, b"hello", 5).unwrap();
        assert!(port.wait(Some(common::PATIENCE)).unwrap().readable);
        assert_eq!(port.receive().unwrap(), 0);
        assert_eq!(port.counters().sent.errors.refused, 1);
        assert_eq!(port.take_refusal(), Some(nobody));
        assert_eq!(port.take_refusal(), None);
        assert_eq!(
            port.wait(Some(std::time::Duration::ZERO)).unwrap(),
            Ready::default()
        );

        port.send(nobody, b"hello", 5).unwrap();
        assert_eq!(port.send(group, &[1; 3000], 1000).unwrap().datagrams, 3);
        assert_eq!(common::collect(&mut port, 3).len(), 3);
        assert_eq!(port.counters().sent.errors.refused, 2);
        assert_eq!(port.counters().sent.errors.trains_refused, 0);
        // Also when it came to light while something else was sent.
        assert_eq!(port.take_refusal(), Some(nobody));
    }
}

#[test]
fn who_listens_does_not_refuse() {
    let (mut port, mut other) = (open(Offload::Auto), open(Offload::Auto));
    port.send(other.local_addr(), b"hello", 5).unwrap();
    common::collect(&mut other, 1);
    assert_eq!(port.receive().unwrap(), 0);
    assert_eq!(port.take_refusal(), None);
}

#[test]
fn only_multicast_can_be_joined() {
    let mut port = open(Offload::Auto);
    let mut no_port = group();
    no_port.set_port(0);
    for address in ["10.0.0.1:7000".parse().unwrap(), no_port] {
        let error = port.join(address).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{address} is not a multicast address with a port")),
            "{error}"
        );
    }
}

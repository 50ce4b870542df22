//! Errors name the cause and the remedy.

mod common;

use common::{config, group, open};
use qsm_net::{InterfaceError, Offload, Port, PortConfig, PortError, choose_interface};

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
    let error = choose_interface(Some("no-such-interface")).unwrap_err();
    assert!(matches!(&error, InterfaceError::Unknown { existing, .. } if !existing.is_empty()));
    let text = error.to_string();
    assert!(
        text.starts_with("no interface has the name or IPv4 address \"no-such-interface\""),
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

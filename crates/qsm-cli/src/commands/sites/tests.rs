use std::net::SocketAddr;

use qsm_console::passage::Passage;

use super::*;

/// A gateway of site fra that receives lon from these places.
fn gateway(name: &str, publishes: bool, links: &[(u16, Reach)]) -> Gateway {
    let mut state = GatewayState::new("fra", &["prices/**".to_owned()]);
    state.out = OutwardState {
        gateways: 2,
        round_trip_us: 41_000,
        loss_ppm: 5000,
        messages: 1200,
        bytes: 250_000,
    };
    state.cpu_us = 12_000;
    let link = |(port, reach): &(u16, Reach)| LinkState {
        at: SocketAddr::from(([10, 0, 0, 2], *port)),
        reach: *reach,
        round_trip_us: 40_000,
        loss_ppm: 0,
        messages: 7,
        bytes: 2000,
    };
    state.from = vec![OtherSite {
        site: "lon".to_owned(),
        publishes,
        kept_bytes: 0,
        links: links.iter().map(link).collect(),
    }];
    Gateway {
        name: name.to_owned(),
        node: "1f.3".to_owned(),
        away: None,
        silent: false,
        state,
    }
}

const BOTH: [(u16, Reach); 2] = [(1, Reach::Reached), (2, Reach::Reached)];

fn faults(gateways: &[Gateway]) -> Vec<&'static str> {
    let sites = Sites(gateways.to_vec());
    sites.faults().into_iter().map(|fault| fault.id).collect()
}

#[test]
fn sites_are_a_table_or_json() {
    let sites = Sites(vec![
        gateway("a", true, &BOTH[..1]),
        gateway("b", false, &BOTH[1..]),
    ]);
    let told = Passage::render(&sites.words_of_group("prices/eur", "plant"));
    let expected = [
        "group prices/eur, as gateways of cluster plant join sites: joined with lon\n",
        "Site lon is joined by a (publishing), b (standing by).\n",
        "What is published here is sent to other sites by a and b.\n\n",
        "  SITE  GATEWAY  WAY                     ROLE         STATE       ROUND TRIP   LOSS  MESSAGES/S   BYTES/S    CPU\n",
        "  fra   a        to others                            2 gateways     41.0 ms  0.5 %       1,200    250 kB  1.2 %\n",
        "  fra   a        from lon at 10.0.0.2:1  publishing   reached        40.0 ms  0.0 %           7    2.0 kB\n",
        "  fra   b        to others                            2 gateways     41.0 ms  0.5 %       1,200    250 kB  1.2 %\n",
        "  fra   b        from lon at 10.0.0.2:2  standing by  reached        40.0 ms  0.0 %           7    2.0 kB\n",
        "\nNothing is wrong with them.\n",
    ];
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&told), squeezed(&expected.concat()), "{told}");
    let json = sites.json();
    assert_eq!(json["joined"][0]["publishing"][0], "a");
    assert_eq!(json["joined"][0]["standing_by"][0], "b");
    let link = &json["gateways"][1]["from"][0]["links"][0];
    assert_eq!(
        (&link["address"], &link["state"]),
        (&"10.0.0.2:2".into(), &"reached".into())
    );
    assert_eq!(json["gateways"][0]["to"]["gateways"], 2);
    assert_eq!(json["faults"].as_array().unwrap().len(), 0);
    assert_eq!(sites.0[0].summary(), "fra: publishing lon");
}

#[test]
fn what_is_wrong_between_sites_is_named() {
    let sound = gateway("a", true, &BOTH);
    assert!(faults(&[sound.clone(), gateway("b", false, &BOTH)]).is_empty());
    let cut = gateway("a", false, &[(1, Reach::Asked), (2, Reach::Silent)]);
    assert_eq!(faults(std::slice::from_ref(&cut)), ["site-not-reached"]);
    // The other one reaches it.
    let half = [cut, sound.clone()];
    assert_eq!(faults(&half), ["way-not-reached", "way-not-reached"]);
    assert_eq!(
        faults(&[sound.clone(), gateway("b", true, &BOTH)]),
        ["several-publish"]
    );
    let mut idle = gateway("a", false, &BOTH);
    assert!(faults(std::slice::from_ref(&idle)).is_empty());
    idle.state.from[0].kept_bytes = 1;
    assert_eq!(faults(std::slice::from_ref(&idle)), ["nobody-publishes"]);
    let mut alone = sound.clone();
    alone.state.out.gateways = 0;
    assert_eq!(faults(std::slice::from_ref(&alone)), ["not-received"]);
    let mut stranger = sound;
    stranger.state.site = "par".to_owned();
    assert_eq!(
        faults(&[gateway("b", false, &BOTH), stranger]),
        ["several-sites"]
    );
}

#[test]
fn a_silent_gateway_s_word_is_of_the_past() {
    let silent = Gateway {
        away: Some("silent".to_owned()),
        silent: true,
        ..gateway("a", true, &BOTH)
    };
    let sites = Sites(vec![silent, gateway("b", true, &BOTH)]);
    assert_eq!(sites.0[0].summary(), "fra: silent");
    assert_eq!(faults(&sites.0), ["gateway-silent"]);
    let json = sites.json();
    assert_eq!(json["joined"][0]["publishing"], serde_json::json!(["b"]));
    assert_eq!(json["joined"][0]["silent"], serde_json::json!(["a"]));
    assert_eq!(json["gateways"][0]["to"], serde_json::Value::Null);
    let told = Passage::render(&sites.words());
    assert!(
        told.contains("joined by b (publishing), a (silent)"),
        "{told}"
    );
    let alone = Sites(vec![sites.0[0].clone()]);
    assert_eq!(faults(&alone.0), ["gateway-silent", "site-not-reached"]);
}

#[test]
fn a_node_s_name_cannot_steer_the_terminal() {
    let sites = Sites(vec![gateway("\u{1b}[2Ja", true, &[(1, Reach::Silent)])]);
    let told = Passage::render(&sites.words_of_group("\u{1b}]0;x", "\u{7}"));
    assert!(
        told.chars().all(|it| it == '\n' || !it.is_control()),
        "{told:?}"
    );
}

#[test]
fn a_gateway_that_has_no_room_for_its_groups_may_join_any() {
    let mut doubtful = gateway("a", true, &BOTH);
    doubtful.state.groups_left_out = 3;
    let described = |gateway: &Gateway| DescribedNode {
        name: gateway.name.clone(),
        node: gateway.node.clone(),
        away: None,
        silent: false,
        description: serde_json::to_string(&gateway.state).unwrap(),
    };
    let described = [described(&gateway("b", true, &BOTH)), described(&doubtful)];
    let joined = |group| Sites::of_group(group, &described).0.len();
    assert_eq!((joined("prices/eur"), joined("news")), (2, 1));
    let told = Passage::render(&Sites::of_group("news", &described).words_of_group("news", "c"));
    assert!(
        told.contains("Gateway a joins 3 groups that it has no room to name"),
        "{told}"
    );
}

//! Certificates of X.509 beside tokens, in one cluster.

#[path = "../../../qsm-x509/tests/support/mod.rs"]
mod authority;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use authority::{Authority, Issued};
use qsm::{
    Builder, Cipher, Event, Identity, Node, RequestError, Service, ServiceEvent, StrangerCause,
};
use qsm_x509::Anchors;
use rcgen::date_time_ymd;

use super::common::{self, PATIENCE, Place, expect_numbers, pattern};
use super::{Plant, assert_clean, refused, subscriptions, wait_for, wait_shut_out};

/// A cluster whose service takes tokens and certificates.
struct Works {
    plant: Plant,
    authority: Authority,
    crl: Place,
}

impl Works {
    fn new() -> Self {
        let authority = Authority::new("works CA");
        let this = Self {
            plant: Plant::new(),
            authority,
            crl: Place::new(),
        };
        this.revoke(&[]);
        this
    }

    fn anchors(&self) -> Anchors {
        Anchors::from_pem(self.authority.pem().as_bytes()).unwrap()
    }

    fn revoke(&self, serials: &[u64]) {
        let next = self.crl.path().with_extension("next");
        fs::write(&next, self.authority.revoke(serials)).unwrap();
        fs::rename(&next, self.crl.path()).unwrap();
    }

    /// A service that has a token itself.
    fn service(&self) -> Service {
        let identity = self.plant.service_identity().trust(self.anchors());
        let identity = identity.revoked_of(self.crl.path()).unwrap();
        let service = self.plant.site.service();
        // Another cipher than the other tests have, where there is one.
        let cipher = Some(Cipher::Aegis128X2).filter(|cipher| cipher.check().is_ok());
        let network = self.plant.network(identity).unicast_port(0);
        let service = service.network(network.cipher(cipher.unwrap_or_default()));
        service.revocations(self.plant.list.path()).start().unwrap()
    }

    fn uri(&self, rights: &str) -> String {
        let cluster = self.plant.site.cluster();
        format!("qsm://{cluster}/{rights}")
    }

    fn issue(&self, serial: u64, rights: &str) -> Issued {
        self.authority.issue(serial, &[&self.uri(rights)])
    }

    /// A node that shows this certificate, and knows the service by its token.
    fn builder(&self, name: &str, issued: &Issued) -> Builder {
        let identity = identity(issued).trust_root(self.plant.root.public());
        self.plant.builder(name, identity)
    }
}

fn identity(issued: &Issued) -> Identity {
    let [certificate, key] = [(); 2].map(|()| Place::new());
    fs::write(certificate.path(), &issued.certificate).unwrap();
    fs::write(key.path(), &issued.private_key).unwrap();
    fs::set_permissions(key.path(), fs::Permissions::from_mode(0o600)).unwrap();
    Identity::read_certificate(certificate.path(), key.path()).unwrap()
}

// Rule R-SEC-19.
#[test]
fn a_node_by_a_token_and_others_by_certificates_are_in_and_who_is_revoked_goes_alone() {
    let works = Works::new();
    let service = works.service();
    let by_token = works.plant.node("token");
    let (stays, goes) = (
        works.issue(1, "stays?publish=x&subscribe=x"),
        works.issue(2, "goes?subscribe=x"),
    );
    let [stays, traitor] = [("stays", &stays), ("goes", &goes)]
        .map(|(name, issued)| common::admitted(works.builder(name, issued)));
    let theirs = traitor.subscribe(["x"]).unwrap();
    let Err(RequestError::Refused { reason }) = traitor.publisher("x") else {
        panic!("it may not publish");
    };
    assert!(reason.contains("publish to the group"), "{reason}");
    let nodes = [by_token, stays];
    let subscriptions = subscriptions(&nodes);
    let publishers = nodes.each_ref().map(|node| node.publisher("x").unwrap());
    let send = |numbers: std::ops::RangeInclusive<u64>, by: usize| {
        publishers[by].wait_for_members(1, PATIENCE).unwrap();
        numbers.for_each(|number| publishers[by].send(&pattern(number, 100)).unwrap());
    };
    publishers[0].wait_for_members(2, PATIENCE).unwrap();
    send(1..=100, 0);
    expect_numbers(&theirs, 1..=100, |number| pattern(number, 100));

    works.revoke(&[2]);
    wait_shut_out(&service, &traitor, &theirs, "the certificate was revoked");
    send(101..=200, 0);
    expect_numbers(&subscriptions[0], 1..=200, |number| pattern(number, 100));
    expect_numbers(&subscriptions[1], 1..=200, |number| pattern(number, 100));
    send(1..=100, 1);
    expect_numbers(&subscriptions[0], 1..=100, |number| pattern(number, 100));
    nodes.iter().for_each(assert_clean);
    assert!(refused(&start(works.builder("goes", &goes))).contains("was revoked"));
    assert_eq!(nodes[0].list_nodes().unwrap().len(), 2);

    // What is no list changes nothing, and is named.
    fs::write(works.crl.path(), "nothing").unwrap();
    loop {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        if let ServiceEvent::ListRefused { reason } = event {
            assert!(
                reason.contains("no list of revoked certificates"),
                "{reason}"
            );
            break;
        }
    }
}

fn start(builder: Builder) -> Node {
    builder.start().unwrap()
}

// Rule R-SEC-19.
#[test]
fn who_has_a_certificate_that_does_not_do_is_told_why_and_nobody_else_is_hurt() {
    let works = Works::new();
    let _service = works.service();
    let good = common::admitted(works.builder("good", &works.issue(1, "good?subscribe=x")));
    let foreign = Authority::new("works CA").issue(2, &[&works.uri("foreign?subscribe=x")]);
    let reason = refused(&start(works.builder("foreign", &foreign)));
    assert!(
        reason.contains("no authority that is trusted") && reason.contains("--trust"),
        "{reason}"
    );
    // These are found before a node starts.
    let told = |name: &str, issued: &Issued| {
        let error = works.builder(name, issued).start().unwrap_err();
        error.to_string()
    };
    let uri = works.uri("late?subscribe=x");
    let late = works.authority.issue_with(3, &[&uri], |params| {
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    assert!(told("late", &late).contains("expired at 2021-01-01"));
    let early = works.authority.issue_with(4, &[&uri], |params| {
        params.not_before = date_time_ymd(2089, 1, 1);
    });
    assert!(told("late", &early).contains("is the clock right?"));
    let error = told("other", &works.issue(5, "late?subscribe=x"));
    assert!(
        error.contains("does not allow the name \"other\""),
        "{error}"
    );
    let elsewhere = works.authority.issue(6, &["qsm://elsewhere/a?subscribe=x"]);
    assert!(told("a", &elsewhere).contains("for the cluster \"elsewhere\""));
    let nameless = works.authority.issue(7, &[]);
    assert!(told("a", &nameless).contains("has no URI"));
    let mut swapped = works.issue(8, "a?subscribe=x");
    swapped.private_key = works.issue(9, "a?subscribe=x").private_key;
    assert!(told("a", &swapped).contains("for another key"));
    let nobody = works
        .plant
        .builder("a", identity(&works.issue(10, "a?subscribe=x")));
    let error = nobody.start().unwrap_err().to_string();
    assert!(error.contains("--trust"), "{error}");
    assert_eq!(good.list_nodes().unwrap().len(), 1);
}

// Rules R-SEC-7, R-SEC-19.
#[test]
fn a_service_with_a_certificate_and_no_root_has_nodes_with_certificates() {
    let works = Works::new();
    let issued = works.issue(1, "**?role=service");
    let trusting = |issued: &Issued| identity(issued).trust(works.anchors());
    let service = works.plant.site.service();
    let service = service.network(works.plant.network(trusting(&issued)).unicast_port(0));
    let service = service.start().unwrap();
    let reader = works.issue(2, "**?subscribe=x");
    let node = common::admitted(works.plant.builder("reader", trusting(&reader)));
    // It takes no token.
    let by_token = works.plant.identity(|_| ()).trust(works.anchors());
    let reason = refused(&start(works.plant.builder("token", by_token)));
    assert!(reason.contains("root"), "{reason}");
    assert_eq!(node.list_nodes().unwrap().len(), 1);
    let serves = works.plant.site.service();
    let serves = serves
        .network(works.plant.network(trusting(&reader)).unicast_port(0))
        .start();
    let error = serves.unwrap_err().to_string();
    assert!(error.contains("not one of a membership service"), "{error}");
    let counted = service.snapshot().unwrap().admission;
    assert_eq!((counted.admitted, counted.refused), (1, 1));
}

// Rules R-SEC-12, R-SEC-19.
#[test]
fn a_node_leaves_a_service_whose_certificate_is_revoked_while_it_runs() {
    let works = Works::new();
    let trusting = |issued: &Issued| identity(issued).trust(works.anchors());
    let serves = |issued: &Issued| {
        let service = works.plant.site.service();
        let network = works.plant.network(trusting(issued)).unicast_port(0);
        service.network(network).start().unwrap()
    };
    let stolen = serves(&works.issue(1, "**?role=service"));
    let reader = trusting(&works.issue(2, "**?subscribe=x"));
    let reader = reader.revoked_of(works.crl.path()).unwrap();
    let node = common::admitted(works.plant.builder("reader", reader));
    let events = node.events();
    works.revoke(&[1]);
    wait_for(
        &events,
        |event| matches!(event, Event::Stranger(it) if it.cause == StrangerCause::Impostor),
    );
    // What is no list is named, and changes nothing.
    fs::write(works.crl.path(), "nothing").unwrap();
    wait_for(
        &events,
        |event| matches!(event, Event::ListRefused { reason } if reason.contains("no list of revoked certificates")),
    );
    drop(stolen);
    let _service = serves(&works.issue(3, "**?role=service"));
    wait_for(&events, |event| matches!(event, Event::ServiceFound { .. }));
    assert_eq!(node.list_nodes().unwrap().len(), 1);
}

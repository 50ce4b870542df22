//! Values that a node's decoder reads, as the dissector is to show them: with names, in the order of the
//! fields.

mod decision;
mod terms;

use std::net::SocketAddr;

use qsm_wire::membership::{
    About, Answer, AnswerRows, AwayReason, FromService, GroupRates, GroupRow, Hello, Member,
    NodeRow, QueryKind, Rates, RegionKind, RegionReport, RegionRow, Role, Sender, Strain,
    ToService, Update, ViewStep,
};
use qsm_wire::{
    AbsentCause, Ack, Body, Data, Heartbeat, Marks, NumbersQuery, Origin, Packet, Parity, Part,
    Ranges, RegionId, Request, SeqRange, StreamId, Summary, Token, ViewNumber,
};

pub(crate) use self::decision::of_group_answer;
use self::terms::{of_filter, of_terms, of_told_limit};

/// A value as tshark shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Address(SocketAddr),
    /// Bytes in hexadecimal digits.
    Bytes(String),
}

/// Names and values.
#[derive(Debug, Default)]
pub(crate) struct Sheet(pub(crate) Vec<(String, Value)>);

impl Sheet {
    fn put(&mut self, name: &str, value: impl ToString) {
        let value = Value::Text(value.to_string());
        self.0.push((format!("qsm.{name}"), value));
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.put(name, u8::from(value));
    }

    fn origin(&mut self, name: &str, origin: Origin) {
        self.put(name, origin);
        self.put(&format!("{name}.node"), format!("{:#018x}", origin.node.0));
        self.put(&format!("{name}.incarnation"), origin.incarnation);
    }

    fn address(&mut self, name: &str, address: SocketAddr) {
        let family = if address.is_ipv4() { "ip" } else { "ip6" };
        for (name, value) in [
            (name.to_owned(), Value::Address(address)),
            (
                format!("{name}.{family}"),
                Value::Address(SocketAddr::new(address.ip(), 0)),
            ),
        ] {
            self.0.push((format!("qsm.{name}"), value));
        }
        self.put(&format!("{name}.port"), address.port());
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.push((format!("qsm.{name}"), Value::Bytes(digits)));
    }

    fn text(&mut self, name: &str, text: &str) {
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        self.bytes(name, &[&length, text.as_bytes()].concat());
    }

    fn range(&mut self, name: &str, range: SeqRange) {
        let (first, last) = (range.first(), range.last());
        match range.count() {
            1 => self.put(name, first),
            _ => self.put(name, format!("{first} to {last}")),
        }
        self.put(&format!("{name}.first"), first);
        self.put(&format!("{name}.count"), range.count());
    }

    fn ranges(&mut self, name: &str, ranges: &Ranges<'_>) {
        for range in ranges.iter() {
            self.range(name, range);
        }
    }

    fn stream(&mut self, stream: StreamId) {
        self.put("channel", stream.channel);
        self.origin("stream", stream.origin);
    }

    fn optional<T>(&mut self, name: &str, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(name, value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }
}

/// Everything in a packet but the bytes that its header begins with and the content of sessions.
pub(crate) fn of_packet(packet: &Packet<'_>) -> Sheet {
    let mut sheet = Sheet::default();
    let header = &packet.header;
    sheet.put("hop", header.hop as u8);
    sheet.put("cluster", format!("{:#010x}", header.cluster));
    sheet.put("node", format!("{:#018x}", header.origin.node.0));
    sheet.put("incarnation", header.origin.incarnation);
    of_body(&mut sheet, &packet.body);
    sheet
}

fn of_body(sheet: &mut Sheet, body: &Body<'_>) {
    match body {
        Body::Data(data) => of_data(sheet, data),
        Body::Heartbeat(heartbeat) => of_heartbeat(sheet, heartbeat),
        Body::Nak(request) | Body::Pull(request) => of_request(sheet, request),
        Body::Token(token) => of_token(sheet, token),
        Body::Summary(summary) => of_summary(sheet, summary),
        Body::Ack(ack, marks) => of_ack(sheet, ack, marks),
        Body::TokenAck(ack) => {
            sheet.put("region", ack.region);
            sheet.origin("leader", ack.leader);
            sheet.put("round", ack.round);
            sheet.put("level", ack.level);
        }
        Body::StreamQuery(query) => {
            sheet.put("channel", query.channel);
            sheet.origin("stream", query.stream);
        }
        Body::Beacon(beacon) => {
            sheet.address("address", beacon.address);
            sheet.put("term", beacon.term);
            sheet.flag("embedded", beacon.embedded);
            sheet.optional("second_given", beacon.second, |sheet, second| {
                sheet.address("second_address", second);
            });
        }
        Body::Probe(probe) | Body::ProbeReply(probe) => {
            sheet.origin("subject", probe.subject);
            sheet.put("nonce", format!("{:#018x}", probe.nonce));
        }
        Body::Absent(absent) => {
            sheet.stream(absent.stream);
            sheet.flag("expired", absent.cause == AbsentCause::Expired);
            sheet.put("ranges_count", absent.ranges.len());
            sheet.ranges("range", &absent.ranges);
        }
        Body::CatchUp(query) => {
            sheet.put("region", query.region);
            sheet.put("view", query.view);
            sheet.put("nonce", format!("{:#018x}", query.nonce));
        }
        Body::Reach(reach) => {
            sheet.put("region", reach.region);
            sheet.origin("speaker", reach.speaker);
            sheet.origin("asker", reach.asker);
            sheet.put("reach.nonce", format!("{:#010x}", reach.nonce));
            sheet.put("hearing", reach.hearing as u8);
        }
        Body::ReachReply(reply) => {
            sheet.put("region", reply.region);
            sheet.put("reach.nonce", format!("{:#010x}", reply.nonce));
            sheet.put("spoken", reply.spoken);
            sheet.flag("multicast", reply.multicast);
        }
        other => of_session_or_list(sheet, other),
    }
}

fn of_parity(sheet: &mut Sheet, parity: &Parity<'_>) {
    sheet.stream(parity.stream);
    sheet.put("parity.first", parity.first);
    sheet.put("parity.count", parity.count);
    sheet.put("parity.row", parity.row);
    sheet.bytes("parity.sum", parity.sum);
}

fn of_session_or_list(sheet: &mut Sheet, body: &Body<'_>) {
    let session = |sheet: &mut Sheet, session| sheet.put("session", format!("{session:#018x}"));
    match body {
        Body::Session(frame) => {
            session(sheet, frame.head.session);
            sheet.put("number", frame.head.number);
            sheet.put("heard_upto", frame.head.heard_upto);
            sheet.flag("more", frame.head.more);
            if !frame.content.is_empty() {
                sheet.bytes("content", frame.content);
            }
        }
        Body::SessionAck(heard) => {
            session(sheet, heard.session);
            sheet.put("heard_upto", heard.heard_upto);
        }
        Body::SessionReset(reset) => session(sheet, reset.session),
        Body::NumbersQuery(query) => of_numbers_query(sheet, query),
        Body::Numbers(numbers) => {
            of_numbers_query(sheet, &numbers.query);
            sheet.put("next_group", numbers.next.map_or(u32::MAX, |next| next.0));
            sheet.put("numbers_count", numbers.groups().count());
            for group in numbers.groups() {
                sheet.put("numbers.group", group.group);
                sheet.put("numbers.first", group.first);
                sheet.put("numbers.last", group.last);
            }
        }
        Body::ListQuery(query) => {
            sheet.put("nonce", format!("{:#018x}", query.nonce));
            sheet.put("list", of_list(query.list));
            sheet.put("list.version", query.version);
            sheet.put("list.offset", query.offset);
            if query.padding > 0 {
                sheet.bytes("zeros", &vec![0; usize::from(query.padding)]);
            }
        }
        Body::ListReply(reply) => {
            sheet.put("nonce", format!("{:#018x}", reply.nonce));
            sheet.put("list", of_list(reply.list));
            sheet.put("list.version", reply.version);
            sheet.put("list.total", reply.total);
            sheet.put("list.offset", reply.offset);
            if !reply.content.is_empty() {
                sheet.bytes("rows", reply.content);
            }
        }
        Body::GroupQuery(query) => {
            sheet.put("nonce", format!("{:#018x}", query.nonce));
            sheet.text("name", query.name);
            if query.padding > 0 {
                sheet.bytes("zeros", &vec![0; usize::from(query.padding)]);
            }
        }
        Body::GroupReply(reply) => {
            sheet.put("nonce", format!("{:#018x}", reply.nonce));
            if !reply.answer.is_empty() {
                sheet.bytes("answer", reply.answer);
            }
        }
        Body::Parity(parity) => of_parity(sheet, parity),
        other => of_admission(sheet, other),
    }
}

fn of_admission(sheet: &mut Sheet, body: &Body<'_>) {
    let Body::Admission(frame) = body else {
        let empty = matches!(body, Body::Solicit);
        assert!(empty, "{body:?} is compared nowhere");
        return;
    };
    sheet.put("stage", frame.stage as u8);
    if !frame.content.is_empty() {
        sheet.bytes("words", frame.content);
    }
}

fn of_list(list: QueryKind) -> u8 {
    match list {
        QueryKind::Nodes => 1,
        QueryKind::Groups => 2,
        QueryKind::Regions => 3,
    }
}

fn of_data(sheet: &mut Sheet, data: &Data<'_>) {
    let head = &data.head;
    sheet.put("channel", head.channel);
    sheet.put("view", head.view);
    sheet.put("sequence", head.sequence);
    sheet.put("view_age", head.view_age);
    for chunk in data.chunks() {
        sheet.put("chunk.group", chunk.group);
        sheet.put("chunk.message", chunk.message);
        let (first, last) = match chunk.part {
            Part::Whole => (true, true),
            Part::First { .. } => (true, false),
            Part::Middle => (false, false),
            Part::Last => (false, true),
        };
        sheet.flag("chunk.last", last);
        sheet.flag("chunk.first", first);
        sheet.put("chunk.length", chunk.content.len());
        if let Part::First { total } = chunk.part {
            sheet.put("chunk.total", total);
        }
        if !chunk.content.is_empty() {
            sheet.bytes("chunk.content", chunk.content);
        }
    }
}

fn of_heartbeat(sheet: &mut Sheet, heartbeat: &Heartbeat<'_>) {
    sheet.stream(heartbeat.stream);
    sheet.put("highest", heartbeat.highest);
    sheet.flag("finished", heartbeat.finished);
    sheet.put("openings_count", heartbeat.openings().count());
    for opening in heartbeat.openings() {
        sheet.put("opening.view", opening.view);
        sheet.put("opening.start", opening.start);
    }
}

fn of_request(sheet: &mut Sheet, request: &Request<'_>) {
    sheet.stream(request.head.stream);
    sheet.put("view", request.head.view);
    sheet.put("tried", format!("{:#010x}", request.head.tried));
    sheet.flag("for_itself", request.head.for_itself);
    sheet.put("requesters_count", request.requesters().count());
    sheet.put("ranges_count", request.ranges.len());
    sheet.flag("takes_parity", request.head.takes_parity);
    for requester in request.requesters() {
        sheet.put("requester", requester);
    }
    sheet.ranges("range", &request.ranges);
}

fn of_token(sheet: &mut Sheet, token: &Token<'_>) {
    let head = &token.head;
    sheet.put("region", head.region);
    sheet.put("view", head.view);
    sheet.origin("leader", head.leader);
    sheet.put("round", head.round);
    sheet.put("level", head.level);
    sheet.put("ring", head.ring);
    sheet.put("visited", head.visited);
    sheet.put("rate", head.rate_packets);
    sheet.put("credit", head.credit_bytes);
    sheet.put("suspects_count", token.suspects().count());
    for suspect in token.suspects() {
        sheet.put("suspect", suspect);
    }
    sheet.put("slots_count", token.slot_count());
    for slot in token.slots() {
        let head = &slot.head;
        sheet.origin("slot.origin", head.origin);
        for (name, value) in [
            ("cutoff", head.cutoff),
            ("highest", head.highest),
            ("arrived", head.arrived),
            ("cached", head.cached),
            ("stable", head.stable),
            ("stable_upto", head.stable_upto),
            ("cached_upto", head.cached_upto),
        ] {
            sheet.put(&format!("slot.{name}"), value);
        }
        sheet.put("slot.losers", head.losers);
        sheet.flag("slot.naks_cut", head.naks_cut);
        sheet.flag("slot.common_cut", head.common_cut);
        sheet.put("slot.naks_count", slot.naks.len());
        sheet.put("slot.common_count", slot.common.len());
        sheet.ranges("missing", &slot.naks);
        sheet.ranges("common", &slot.common);
    }
    for marks in token.marks() {
        of_marks(sheet, &marks);
    }
}

fn of_marks(sheet: &mut Sheet, marks: &Marks<'_>) {
    for mark in marks.iter() {
        sheet.put("mark", mark);
    }
}

fn of_summary(sheet: &mut Sheet, summary: &Summary<'_>) {
    sheet.put("region", summary.region);
    sheet.put("view", summary.view);
    sheet.put("round", summary.round);
    sheet.put("slots_count", summary.slots().count());
    for slot in summary.slots() {
        sheet.origin("slot.origin", slot.origin);
        sheet.put("slot.cutoff", slot.cutoff);
        sheet.put("slot.stable_upto", slot.stable_upto);
        sheet.put("slot.cached_upto", slot.cached_upto);
    }
}

fn of_ack(sheet: &mut Sheet, ack: &Ack, marks: &Marks<'_>) {
    sheet.stream(ack.stream);
    sheet.put("region", ack.region);
    sheet.put("view", ack.view);
    sheet.put("round", ack.round);
    sheet.put("stable_upto", ack.stable_upto);
    sheet.put("cached_upto", ack.cached_upto);
    sheet.put("arrived_upto", ack.arrived_upto);
    sheet.put("rate", ack.rate_packets);
    sheet.put("credit", ack.credit_bytes);
    sheet.put("losers", ack.losers);
    of_marks(sheet, marks);
}

fn of_numbers_query(sheet: &mut Sheet, query: &NumbersQuery) {
    sheet.stream(query.stream);
    sheet.put("joined", query.joined);
    sheet.put("position", query.position);
    sheet.put("from_group", query.from);
}

/// Everything in a message to the service.
pub(crate) fn of_request_message(message: &ToService) -> Sheet {
    let mut sheet = Sheet::default();
    let out = &mut sheet;
    match message {
        ToService::Hello(hello) => {
            out.put("to_service", 1);
            of_hello(out, hello);
        }
        ToService::Enter {
            request,
            role,
            names,
        } => of_entry(out, 2, *request, *role, names),
        ToService::Exit {
            request,
            role,
            names,
        } => of_entry(out, 3, *request, *role, names),
        ToService::Drained { region, view } => of_progress(out, 4, region, view),
        ToService::Suspect { member, silent_ms } => {
            out.put("to_service", 5);
            out.origin("origin", *member);
            out.put("silent", silent_ms);
        }
        ToService::Query { request, kind } => {
            out.put("to_service", 6);
            out.put("request", request);
            out.put("list", of_list(*kind));
        }
        ToService::Goodbye => out.put("to_service", 7),
        ToService::CaughtUp { region, view } => of_progress(out, 8, region, view),
        ToService::Deaf {
            region,
            speaker,
            deaf,
        } => {
            out.put("to_service", 9);
            out.put("region", region);
            out.origin("speaker", *speaker);
            out.flag("deaf", *deaf);
        }
        ToService::Strained { region, strain } => {
            out.put("to_service", 10);
            out.put("region", region);
            of_strain(out, strain);
        }
        ToService::About(about) => {
            out.put("to_service", 11);
            of_about(out, about);
        }
        ToService::Rates(rates) => {
            out.put("to_service", 12);
            of_rates(out, *rates);
        }
        ToService::GroupRates(rates) => {
            out.put("to_service", 13);
            of_group_rates(out, rates);
        }
        ToService::Foreign { region } => of_foreign(out, region),
        ToService::NothingOwed { members } => of_nothing_owed(out, members),
        ToService::Description { text } => {
            out.put("to_service", 16);
            out.text("description", text);
        }
        other => panic!("{other:?} is compared nowhere"),
    }
    sheet
}

fn of_progress(sheet: &mut Sheet, number: u8, region: &RegionId, view: &ViewNumber) {
    sheet.put("to_service", number);
    sheet.put("region", region);
    sheet.put("view", view);
}

fn of_strain(sheet: &mut Sheet, strain: &Strain) {
    sheet.put("behind", strain.behind);
    sheet.put("held", strain.held);
}

fn of_foreign(sheet: &mut Sheet, region: &RegionId) {
    sheet.put("to_service", 14);
    sheet.put("region", region);
}

fn of_nothing_owed(sheet: &mut Sheet, members: &[Origin]) {
    sheet.put("to_service", 15);
    for member in members {
        sheet.origin("origin", *member);
    }
}

fn of_role(sheet: &mut Sheet, role: Role) {
    sheet.put("role", if role == Role::Subscriber { 1 } else { 2 });
}

fn of_entry(sheet: &mut Sheet, number: u8, request: u32, role: Role, names: &[String]) {
    sheet.put("to_service", number);
    sheet.put("request", request);
    of_role(sheet, role);
    for name in names {
        sheet.text("name", name);
    }
}

fn of_hello(sheet: &mut Sheet, hello: &Hello) {
    sheet.text("name", &hello.name);
    sheet.address("address", hello.address);
    sheet.optional("second_given", hello.second, |sheet, second| {
        sheet.address("second_address", second);
    });
    sheet.put("incarnation_wanted", hello.incarnation);
    sheet.put("term", hello.term);
    for group in &hello.groups {
        sheet.optional("group_given", group.group, |sheet, group| {
            sheet.put("group", group);
        });
        sheet.text("name", &group.name);
        of_role(sheet, group.role);
    }
    for region in &hello.regions {
        of_region_report(sheet, region);
    }
    sheet.put("last_region", hello.region_last);
    sheet.put("last_channel", hello.channel_last);
    sheet.put("group_end", hello.group_end);
    sheet.put("last_incarnation", hello.incarnation_last);
    for origin in hello.dead.iter().chain(&hello.senders) {
        sheet.origin("origin", *origin);
    }
    sheet.flag("published", hello.published);
    of_told_limit(sheet, hello.repairs);
}

fn of_region_report(sheet: &mut Sheet, report: &RegionReport) {
    sheet.put("region", report.region);
    sheet.put("view", report.view);
    sheet.put("channel", report.channel);
    sheet.address("address", report.address);
    of_members(sheet, &report.members);
    for group in &report.groups {
        sheet.put("group", group);
    }
    sheet.flag("merged", report.merged);
}

fn of_members(sheet: &mut Sheet, members: &[Member]) {
    for member in members {
        sheet.origin("origin", member.origin);
        sheet.address("address", member.address);
        sheet.put("member.joined", member.joined);
        sheet.optional("member.left_given", member.left, |sheet, left| {
            sheet.put("member.left", left);
        });
        of_absence(sheet, member.away);
    }
}

fn of_absence(sheet: &mut Sheet, away: Option<AwayReason>) {
    let number = away.map(|reason| match reason {
        AwayReason::Silent => 1,
        AwayReason::Unreachable => 2,
        AwayReason::Unreported => 3,
        AwayReason::Slow => 4,
        AwayReason::Demoted => 5,
        other => panic!("{other:?} has no number here"),
    });
    sheet.optional("member.away_given", number, |sheet, number| {
        sheet.put("member.away", number);
    });
}

fn of_about(sheet: &mut Sheet, about: &About) {
    sheet.text("host", &about.host);
    sheet.text("version_of_program", &about.version);
    sheet.put("uptime", about.uptime_ms);
}

fn of_rates(sheet: &mut Sheet, rates: Rates) {
    sheet.put("sent_per_second", rates.sent);
    sheet.put("received_per_second", rates.received);
}

fn of_group_rates(sheet: &mut Sheet, rates: &GroupRates) {
    for rate in &rates.groups {
        sheet.put("group", rate.group);
        sheet.put("messages_in_1000_s", rate.rate);
    }
    sheet.flag("rates_whole", rates.whole);
}

/// Everything in a message from the service.
pub(crate) fn of_answer_message(message: &FromService) -> Sheet {
    let mut sheet = Sheet::default();
    let out = &mut sheet;
    match message {
        FromService::Welcome {
            incarnation,
            term,
            heartbeat_ms,
            expelled,
        } => {
            out.put("from_service", 1);
            out.put("incarnation_given", incarnation);
            out.put("term", term);
            out.put("heartbeat", heartbeat_ms);
            out.flag("expelled", *expelled);
        }
        FromService::Batch { number, updates } => {
            out.put("from_service", 2);
            out.put("batch", number);
            for update in updates {
                of_update(out, update);
            }
        }
        FromService::Answer(answer) => of_answer(out, answer),
        FromService::Redirect { address } => {
            out.put("from_service", 8);
            out.address("address", *address);
        }
        other => panic!("{other:?} is compared nowhere"),
    }
    sheet
}

fn of_answer(sheet: &mut Sheet, answer: &Answer) {
    let number = match &answer.result {
        Ok(AnswerRows::None) => 3,
        Err(_) => 4,
        Ok(AnswerRows::Nodes(_)) => 5,
        Ok(AnswerRows::Groups(_)) => 6,
        Ok(AnswerRows::Regions(_)) => 7,
    };
    sheet.put("from_service", number);
    sheet.put("request", answer.request);
    match &answer.result {
        Ok(rows) => of_rows(sheet, rows),
        Err(reason) => sheet.text("reason", reason),
    }
}

/// Rows of a list.
pub(crate) fn of_rows(sheet: &mut Sheet, rows: &AnswerRows) {
    match rows {
        AnswerRows::None => {}
        AnswerRows::Nodes(rows) => rows.iter().for_each(|row| of_node(sheet, row)),
        AnswerRows::Groups(rows) => rows.iter().for_each(|row| of_group(sheet, row)),
        AnswerRows::Regions(rows) => rows.iter().for_each(|row| of_region(sheet, row)),
    }
}

fn of_node(sheet: &mut Sheet, row: &NodeRow) {
    sheet.origin("origin", row.origin);
    sheet.text("name", &row.name);
    sheet.address("address", row.address);
    sheet.optional("region_given", row.region, |sheet, region| {
        sheet.put("region", region);
    });
    sheet.put("subscriptions", row.subscriptions);
    sheet.put("publications", row.publications);
    of_absence(sheet, row.away);
    sheet.flag("hears_badly", row.deaf);
    sheet.optional("about_given", row.about.as_ref(), of_about);
    sheet.optional("rates_given", row.rates, of_rates);
    sheet.optional("grant_given", row.grant.as_ref(), |sheet, grant| {
        sheet.text("grant", grant);
    });
    sheet.optional(
        "description_given",
        row.description.as_ref(),
        |sheet, text| {
            sheet.text("description", text);
        },
    );
}

fn of_group(sheet: &mut Sheet, row: &GroupRow) {
    sheet.put("group", row.group);
    sheet.text("name", &row.name);
    sheet.put("members_count", row.members);
    sheet.put("regions_count", row.regions);
    sheet.put("publishers_count", row.publishers);
}

fn of_kind(sheet: &mut Sheet, kind: RegionKind) {
    let kind = match kind {
        RegionKind::Exact => 1,
        RegionKind::Common => 2,
        RegionKind::Merged => 3,
        RegionKind::Private => 4,
    };
    sheet.put("region_kind", kind);
}

fn of_region(sheet: &mut Sheet, row: &RegionRow) {
    sheet.put("region", row.region);
    sheet.put("view", row.view);
    sheet.address("address", row.address);
    of_kind(sheet, row.kind);
    sheet.put("groups_count", row.groups);
    of_members(sheet, &row.members);
}

fn of_update(sheet: &mut Sheet, update: &Update) {
    match update {
        Update::Named { group, name } => {
            sheet.put("update", 1);
            sheet.put("group", group);
            sheet.text("name", name);
        }
        Update::Region {
            region,
            channel,
            address,
            groups,
        } => {
            sheet.put("update", 2);
            sheet.put("region", region);
            sheet.put("channel", channel);
            sheet.address("address", *address);
            for group in groups {
                sheet.put("group", group);
            }
        }
        Update::View(step) => of_view(sheet, step),
        Update::Closed { region } => {
            sheet.put("update", 4);
            sheet.put("region", region);
        }
        Update::Dead { origin } => {
            sheet.put("update", 5);
            sheet.origin("origin", *origin);
        }
        Update::Settled {
            region,
            view,
            senders,
        } => {
            sheet.put("update", 6);
            sheet.put("region", region);
            sheet.put("view", view);
            of_senders(sheet, senders);
        }
        Update::Second { address, second } => {
            sheet.put("update", 7);
            sheet.address("address", *address);
            sheet.address("second_address", *second);
        }
        Update::Sources { region, senders } => {
            sheet.put("update", 8);
            sheet.put("region", region);
            of_senders(sheet, senders);
        }
        Update::Filters {
            region,
            whole,
            members,
        } => {
            sheet.put("update", 9);
            sheet.put("region", region);
            sheet.flag("whole", *whole);
            members.iter().for_each(|member| of_filter(sheet, member));
        }
        terms => of_terms(sheet, terms),
    }
}

fn of_view(sheet: &mut Sheet, step: &ViewStep) {
    sheet.put("update", 3);
    sheet.put("region", step.region);
    sheet.put("view", step.view);
    sheet.put("base", step.base);
    for origin in step.removed.iter().chain(&step.leaving) {
        sheet.origin("origin", *origin);
    }
    of_members(sheet, &step.changed);
    of_members(sheet, &step.added);
}

fn of_senders(sheet: &mut Sheet, senders: &[Sender]) {
    for sender in senders {
        sheet.origin("origin", sender.origin);
        sheet.address("address", sender.address);
    }
}

//! Rules of nftables, and what they do to a packet.
//!
//! A condition is met, not met, or undecided: rules know more than this does. What is dropped for
//! certain is told apart from what may be.

use std::net::Ipv4Addr;

use serde_json::Value;

/// Deepest jump from chain to chain, as of the kernel.
const DEPTH_MAX: usize = 16;

/// What is known of the firewall.
#[derive(Debug, Clone, Default)]
pub enum Firewall {
    /// It could not be read.
    #[default]
    Unknown,
    /// It was read.
    Known(Rules),
}

/// All chains.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    chains: Vec<Chain>,
}

#[derive(Debug, Clone)]
struct Chain {
    family: String,
    table: String,
    name: String,
    /// Where packets pass it by themselves.
    hook: Option<String>,
    priority: i64,
    drops: bool,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    handle: u64,
    expressions: Vec<Value>,
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub(crate) arrives: bool,
    pub(crate) interface: &'a str,
    /// An address of this host there: what is allowed or forbidden by source may be this network.
    pub(crate) own: Option<Ipv4Addr>,
    pub(crate) to: Ipv4Addr,
    pub(crate) protocol: &'static str,
    pub(crate) port: Option<u16>,
}

/// Where a packet is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drop {
    /// Family, table and chain.
    pub(crate) chain: String,
    /// The rule; the chain's policy if `None`.
    pub(crate) rule: Option<u64>,
    pub(crate) certain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

impl Truth {
    fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Maybe,
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

/// End of a chain for a packet.
enum End {
    Accepted,
    Dropped(Drop),
    /// The rules that follow decide.
    Passed,
}

/// What is undecided on the way.
#[derive(Default)]
struct Doubts {
    /// It may have been accepted before.
    accepted: bool,
    dropped: Option<Drop>,
}

impl Rules {
    /// Reads what `nft -j list ruleset` writes; `None` if that is something else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let items = value.get("nftables")?.as_array()?;
        let mut chains: Vec<Chain> = items
            .iter()
            .filter_map(|item| Chain::read(item.get("chain")?))
            .collect();
        let sets: Vec<&Value> = items.iter().filter_map(|item| item.get("set")).collect();
        for rule in items.iter().filter_map(|item| item.get("rule")) {
            let of = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
            let elements = |name: &str| {
                let mut sets = sets.iter();
                let found = sets.find(|set| {
                    set["family"] == of("family")
                        && set["table"] == of("table")
                        && set["name"] == name
                })?;
                Some(found["elem"].as_array().cloned().unwrap_or_default())
            };
            let chain = chains.iter_mut().find(|chain| {
                (&*chain.family, &*chain.table, &*chain.name)
                    == (of("family"), of("table"), of("chain"))
            });
            if let Some(chain) = chain {
                chain.rules.push(Rule {
                    handle: rule.get("handle").and_then(Value::as_u64).unwrap_or(0),
                    expressions: rule
                        .get("expr")
                        .and_then(Value::as_array)
                        .map(|all| {
                            all.iter()
                                .map(|one| with_elements(one, &elements))
                                .collect()
                        })
                        .unwrap_or_default(),
                });
            }
        }
        chains.sort_by_key(|chain| chain.priority);
        Some(Self { chains })
    }

    /// Where the packet is dropped, or may be.
    pub(crate) fn drop_of(&self, packet: &Packet<'_>) -> Option<Drop> {
        let hooks = match packet.arrives {
            true => ["prerouting", "input"],
            false => ["output", "postrouting"],
        };
        let mut doubtful = None;
        for hook in hooks {
            let here = |chain: &&Chain| {
                chain.hook.as_deref() == Some(hook) && ["ip", "inet"].contains(&&*chain.family)
            };
            for chain in self.chains.iter().filter(here) {
                let mut doubts = Doubts::default();
                let end = self.pass(chain, packet, &mut doubts, 0);
                let dropped = match end {
                    End::Dropped(drop) => Some(drop),
                    End::Passed if chain.drops => Some(Drop {
                        chain: chain.path(),
                        rule: None,
                        certain: true,
                    }),
                    End::Accepted | End::Passed => doubts.dropped,
                };
                match dropped {
                    Some(drop) if drop.certain && !doubts.accepted => return Some(drop),
                    Some(drop) => {
                        doubtful = doubtful.or(Some(Drop {
                            certain: false,
                            ..drop
                        }));
                    }
                    None => {}
                }
            }
        }
        doubtful
    }

    fn pass(&self, chain: &Chain, packet: &Packet<'_>, doubts: &mut Doubts, depth: usize) -> End {
        for rule in &chain.rules {
            let conditions = rule.expressions.iter();
            let met = conditions.fold(Truth::Yes, |met, one| met.and(condition(one, packet)));
            let Some(word) = rule.expressions.iter().find_map(Word::of) else {
                continue;
            };
            if met == Truth::No {
                continue;
            }
            let certain = met == Truth::Yes;
            let drop = Drop {
                chain: chain.path(),
                rule: Some(rule.handle),
                certain,
            };
            match (word, certain) {
                (Word::Drop, true) => return End::Dropped(drop),
                (Word::Accept, true) => return End::Accepted,
                (Word::Return, true) => return End::Passed,
                (Word::Drop, false) => doubts.drop(drop),
                (Word::Accept, false) => doubts.accepted = true,
                (Word::Return, false) => {}
                (Word::Table { drops }, _) => {
                    doubts.accepted = true;
                    if drops {
                        doubts.drop(drop);
                    }
                }
                (Word::Chain { target, back }, _) => {
                    let end = self.follow(chain, target, packet, doubts, depth);
                    match (end, certain) {
                        (End::Passed, true) if !back => return End::Passed,
                        (End::Passed, _) => {}
                        (end, true) => return end,
                        (End::Accepted, false) => doubts.accepted = true,
                        (End::Dropped(drop), false) => doubts.drop(drop),
                    }
                }
            }
        }
        End::Passed
    }

    /// Another chain of the same table.
    fn follow(
        &self,
        from: &Chain,
        target: &str,
        packet: &Packet<'_>,
        doubts: &mut Doubts,
        depth: usize,
    ) -> End {
        let mut chains = self.chains.iter();
        let same = |next: &&Chain| (&next.family, &next.table) == (&from.family, &from.table);
        match chains.find(|next| same(next) && next.name == target) {
            Some(next) if depth < DEPTH_MAX => self.pass(next, packet, doubts, depth + 1),
            _ => End::Passed,
        }
    }
}

/// A condition with the elements of a set in place of its name.
fn with_elements(expression: &Value, elements: &dyn Fn(&str) -> Option<Vec<Value>>) -> Value {
    let right = expression.get("match").and_then(|of| of["right"].as_str());
    let mut expression = expression.clone();
    if let Some(name) = right.and_then(|text| text.strip_prefix('@'))
        && let Some(elements) = elements(name)
    {
        expression["match"]["right"] = Value::Array(elements);
    }
    expression
}

/// The word of a rule on the packets that meet it.
#[derive(Clone, Copy)]
enum Word<'a> {
    Accept,
    Drop,
    Return,
    /// Another chain; with `back` the rules behind this one follow.
    Chain {
        target: &'a str,
        back: bool,
    },
    /// A table decides, or a program.
    Table {
        drops: bool,
    },
}

impl<'a> Word<'a> {
    fn of(expression: &'a Value) -> Option<Self> {
        let target = |key: &str| expression.get(key)?.get("target")?.as_str();
        let has = |key: &str| expression.get(key).is_some();
        if has("drop") || has("reject") {
            Some(Self::Drop)
        } else if has("accept") {
            Some(Self::Accept)
        } else if has("return") {
            Some(Self::Return)
        } else if has("vmap") || has("queue") {
            let drops = expression.to_string().contains("\"drop\"");
            Some(Self::Table { drops })
        } else if let Some(target) = target("jump") {
            let back = true;
            Some(Self::Chain { target, back })
        } else {
            let (target, back) = (target("goto")?, false);
            Some(Self::Chain { target, back })
        }
    }
}

impl Doubts {
    fn drop(&mut self, drop: Drop) {
        self.dropped.get_or_insert(Drop {
            certain: false,
            ..drop
        });
    }
}

impl Chain {
    fn read(value: &Value) -> Option<Self> {
        let of = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            family: of("family")?,
            table: of("table")?,
            name: of("name")?,
            hook: of("hook"),
            priority: value.get("prio").and_then(Value::as_i64).unwrap_or(0),
            drops: of("policy").as_deref() == Some("drop"),
            rules: Vec::new(),
        })
    }

    fn path(&self) -> String {
        format!("{} {} {}", self.family, self.table, self.name)
    }
}

/// Whether a packet meets what an expression asks for; what asks for nothing is met.
fn condition(expression: &Value, packet: &Packet<'_>) -> Truth {
    let Some(of) = expression.get("match") else {
        // A limit, an extension of iptables, or a set that changes.
        let other = ["limit", "xt", "quota", "connlimit", "set"];
        let undecided = other.iter().any(|key| expression.get(key).is_some());
        return if undecided { Truth::Maybe } else { Truth::Yes };
    };
    let (left, right) = (&of["left"], &of["right"]);
    let met = any(right, &|value| equal(left, value, packet));
    match of["op"].as_str() {
        Some("==" | "in") => met,
        Some("!=") => met.not(),
        _ => Truth::Maybe,
    }
}

/// Of a list or a set, one of the values is enough.
fn any(right: &Value, equal: &dyn Fn(&Value) -> Truth) -> Truth {
    let list = right.as_array().or_else(|| right.get("set")?.as_array());
    // An element may have a comment or an age.
    if let Some(value) = right.get("elem").and_then(|elem| elem.get("val")) {
        return any(value, equal);
    }
    match list {
        Some(list) => list
            .iter()
            .fold(Truth::No, |met, value| met.or(any(value, equal))),
        None => equal(right),
    }
}

fn equal(left: &Value, right: &Value, packet: &Packet<'_>) -> Truth {
    if let Some(payload) = left.get("payload") {
        let of = |key: &str| payload[key].as_str().unwrap_or_default();
        return match (of("protocol"), of("field")) {
            ("ip", "daddr") => contains(right, packet.to),
            ("ip", "saddr") => source(right, packet),
            ("ip", "protocol") => protocol(right, packet),
            ("udp" | "th", "dport") => match packet.port {
                Some(port) => number(right, port.into()),
                None => Truth::No,
            },
            ("ip" | "th", _) => Truth::Maybe,
            (other, _) if other == packet.protocol => Truth::Maybe,
            // Something that this packet is not.
            _ => Truth::No,
        };
    }
    let meta = left.get("meta").and_then(|meta| meta["key"].as_str());
    match meta {
        Some("iifname" | "iif") => Truth::of(packet.arrives && named(right, packet.interface)),
        Some("oifname" | "oif") => Truth::of(!packet.arrives && named(right, packet.interface)),
        Some("l4proto") => protocol(right, packet),
        Some("nfproto") => Truth::of(right == "ipv4"),
        Some("protocol") => Truth::of(right == "ip"),
        Some("pkttype") if packet.arrives => Truth::of(right == "multicast"),
        Some(_) => Truth::Maybe,
        None if left.get("ct").is_some_and(|ct| ct["key"] == "state") => {
            Truth::of(right == "new" || right == "untracked")
        }
        None if left.get("fib").is_some_and(|fib| fib["result"] == "type") => {
            Truth::of(right == "multicast")
        }
        None => Truth::Maybe,
    }
}

/// What arrives is from another host of this network, whichever that is.
fn source(right: &Value, packet: &Packet<'_>) -> Truth {
    let Some(own) = packet.own else {
        return Truth::Maybe;
    };
    let met = contains(right, own);
    let single = right
        .as_str()
        .is_some_and(|text| text.parse::<Ipv4Addr>().is_ok());
    match (packet.arrives, met) {
        (false, _) | (true, Truth::No) => met,
        // One host, or this one.
        (true, _) if single => Truth::No,
        (true, _) => Truth::Maybe,
    }
}

fn named(right: &Value, interface: &str) -> bool {
    right
        .as_str()
        .is_some_and(|name| match name.strip_suffix('*') {
            Some(begin) => interface.starts_with(begin),
            None => interface == name,
        })
}

fn protocol(right: &Value, packet: &Packet<'_>) -> Truth {
    let number = match packet.protocol {
        "udp" => 17,
        _ => 2,
    };
    Truth::of(right == packet.protocol || right.as_u64() == Some(number))
}

fn number(right: &Value, number: u64) -> Truth {
    let range = right.get("range").and_then(Value::as_array);
    if let Some([from, to]) = range.map(Vec::as_slice) {
        let (from, to) = (from.as_u64(), to.as_u64());
        return Truth::of(from <= Some(number) && Some(number) <= to);
    }
    match right.as_u64() {
        Some(other) => Truth::of(other == number),
        // A named service.
        None => Truth::Maybe,
    }
}

fn contains(right: &Value, address: Ipv4Addr) -> Truth {
    let parse = |value: &Value| value.as_str()?.parse::<Ipv4Addr>().ok();
    if let Some(prefix) = right.get("prefix") {
        let (first, length) = (parse(&prefix["addr"]), prefix["len"].as_u64());
        let (Some(first), Some(length @ 0..=32)) = (first, length) else {
            return Truth::No;
        };
        let shift = 32 - length;
        let cut = |address: Ipv4Addr| u64::from(u32::from(address)) >> shift;
        return Truth::of(cut(first) == cut(address));
    }
    if let Some([from, to]) = right
        .get("range")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        return match (parse(from), parse(to)) {
            (Some(from), Some(to)) => Truth::of(from <= address && address <= to),
            _ => Truth::Maybe,
        };
    }
    match parse(right) {
        Some(other) => Truth::of(other == address),
        // The name of a set.
        None => Truth::Maybe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: Ipv4Addr = Ipv4Addr::new(239, 192, 83, 77);

    fn packet(arrives: bool) -> Packet<'static> {
        Packet {
            arrives,
            interface: "eth0",
            own: Some(Ipv4Addr::new(10, 0, 0, 1)),
            to: DISCOVERY,
            protocol: "udp",
            port: Some(4483),
        }
    }

    /// A chain at the hook `input` with these expressions, a rule each.
    fn rules(policy: &str, rules: &[&str]) -> Rules {
        let chain = r#"{"chain":{"family":"inet","table":"t","name":"c","type":"filter","hook":"input","prio":0,"policy":"POLICY"}}"#;
        let mut items = vec![chain.replace("POLICY", policy)];
        for (expressions, handle) in rules.iter().zip(1..) {
            items.push(format!(
                r#"{{"rule":{{"family":"inet","table":"t","chain":"c","handle":{handle},"expr":[{expressions}]}}}}"#
            ));
        }
        Rules::read(&format!(r#"{{"nftables":[{}]}}"#, items.join(","))).unwrap()
    }

    fn dropped(policy: &str, list: &[&str]) -> Option<(Option<u64>, bool)> {
        let drop = rules(policy, list).drop_of(&packet(true))?;
        assert_eq!(drop.chain, "inet t c");
        Some((drop.rule, drop.certain))
    }

    fn matching(left: &str, right: &str) -> String {
        format!(r#"{{"match":{{"op":"==","left":{left},"right":{right}}}}}"#)
    }

    const DADDR: &str = r#"{"payload":{"protocol":"ip","field":"daddr"}}"#;
    const DPORT: &str = r#"{"payload":{"protocol":"udp","field":"dport"}}"#;
    const SADDR: &str = r#"{"payload":{"protocol":"ip","field":"saddr"}}"#;
    const STATE: &str = r#"{"ct":{"key":"state"}}"#;

    #[test]
    fn a_rule_that_meets_multicast_drops_it() {
        for (left, right) in [
            (DADDR, r#"{"prefix":{"addr":"224.0.0.0","len":4}}"#),
            (DADDR, r#""239.192.83.77""#),
            (
                DADDR,
                r#"{"set":["10.0.0.9",{"range":["239.0.0.0","239.255.255.255"]}]}"#,
            ),
            (r#"{"meta":{"key":"pkttype"}}"#, r#""multicast""#),
            (r#"{"meta":{"key":"l4proto"}}"#, r#"{"set":["tcp","udp"]}"#),
            (r#"{"meta":{"key":"iifname"}}"#, r#""eth*""#),
            (DPORT, r#"{"range":[4000,5000]}"#),
            (STATE, r#"["new","invalid"]"#),
        ] {
            let rule =
                matching(left, right) + r#",{"counter":{"packets":0,"bytes":0}},{"drop":null}"#;
            assert_eq!(
                dropped("accept", &[&rule]),
                Some((Some(1), true)),
                "{right}"
            );
        }
    }

    #[test]
    fn rules_for_other_packets_do_not() {
        for (left, right) in [
            (DADDR, r#""224.0.0.251""#),
            (DPORT, "{\"set\":[22,80]}"),
            (r#"{"payload":{"protocol":"tcp","field":"dport"}}"#, "4483"),
            (
                r#"{"payload":{"protocol":"ip6","field":"daddr"}}"#,
                r#""ff02::1""#,
            ),
            (r#"{"meta":{"key":"iifname"}}"#, r#""wlan0""#),
            (r#"{"meta":{"key":"oifname"}}"#, r#""eth0""#),
            (STATE, r#""invalid""#),
            (SADDR, r#"{"prefix":{"addr":"192.168.0.0","len":16}}"#),
        ] {
            let rule = matching(left, right) + r#",{"drop":null}"#;
            assert_eq!(dropped("accept", &[&rule]), None, "{right}");
        }
        // Nor a chain at another hook.
        let rule = matching(DADDR, r#""239.192.83.77""#) + r#",{"drop":null}"#;
        assert_eq!(rules("accept", &[&rule]).drop_of(&packet(false)), None);
    }

    #[test]
    fn a_policy_drops_what_no_rule_accepts() {
        let established = matching(STATE, r#"["established","related"]"#) + r#",{"accept":null}"#;
        let ours = matching(DPORT, r#"{"set":[4481,4483,4484]}"#) + r#",{"accept":null}"#;
        assert_eq!(dropped("drop", &[&established]), Some((None, true)));
        assert_eq!(dropped("drop", &[&established, &ours]), None);
        assert_eq!(dropped("accept", &[&established]), None);
    }

    #[test]
    fn what_cannot_be_decided_is_a_doubt() {
        let random = r#"{"match":{"op":"<","left":{"numgen":{"mode":"random","mod":100,"offset":0}},"right":5}},{"drop":null}"#;
        assert_eq!(dropped("accept", &[random]), Some((Some(1), false)));
        let own = matching(SADDR, r#"{"prefix":{"addr":"10.0.0.0","len":8}}"#);
        let own = own + r#",{"accept":null}"#;
        assert_eq!(dropped("drop", &[&own]), Some((None, false)));
        let unless =
            format!(r#"{{"match":{{"op":"!=","left":{DPORT},"right":4483}}}},{{"drop":null}}"#);
        assert_eq!(dropped("accept", &[&unless]), None);
    }

    #[test]
    fn sets_have_the_elements_that_they_have_now() {
        let dropped = |elements: &str| {
            let text = format!(
                r#"{{"nftables":[
                {{"chain":{{"family":"ip","table":"t","name":"c","hook":"input","prio":0}}}},
                {{"set":{{"family":"ip","table":"t","name":"bad"{elements}}}}},
                {{"rule":{{"family":"ip","table":"t","chain":"c","handle":4,"expr":[
                    {{"match":{{"op":"==","left":{DADDR},"right":"@bad"}}}},{{"drop":null}}]}}}}]}}"#
            );
            let drop = Rules::read(&text).unwrap().drop_of(&packet(true));
            drop.map(|drop| drop.certain)
        };
        assert_eq!(dropped(""), None);
        assert_eq!(dropped(r#","elem":["239.1.1.1"]"#), None);
        let with_comment = r#","elem":[{"elem":{"val":"239.192.83.77","comment":"x"}}]"#;
        assert_eq!(dropped(with_comment), Some(true));
    }

    #[test]
    fn sources_are_others_where_packets_arrive_and_this_host_where_they_leave() {
        let single = matching(SADDR, r#""10.0.0.1""#) + r#",{"drop":null}"#;
        assert_eq!(dropped("accept", &[&single]), None);
        let network = matching(SADDR, r#"{"prefix":{"addr":"10.0.0.0","len":24}}"#);
        let network = network + r#",{"drop":null}"#;
        assert_eq!(dropped("accept", &[&network]), Some((Some(1), false)));
    }

    #[test]
    fn jumps_are_followed_and_circles_end() {
        let text = r#"{"nftables":[
            {"chain":{"family":"ip","table":"t","name":"in","hook":"input","prio":0,"policy":"accept"}},
            {"chain":{"family":"ip","table":"t","name":"more"}},
            {"rule":{"family":"ip","table":"t","chain":"in","handle":1,"expr":[{"jump":{"target":"more"}}]}},
            {"rule":{"family":"ip","table":"t","chain":"more","handle":2,"expr":[{"jump":{"target":"more"}}]}},
            {"rule":{"family":"ip","table":"t","chain":"more","handle":3,"expr":[{"reject":null}]}}
        ]}"#;
        let drop = Rules::read(text).unwrap().drop_of(&packet(true)).unwrap();
        assert_eq!(
            (&*drop.chain, drop.rule, drop.certain),
            ("ip t more", Some(3), true)
        );
        assert!(Rules::read("nothing").is_none() && Rules::read("{}").is_none());
    }
}

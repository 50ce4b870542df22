//! A gateway's word on itself: the description of its node, as JSON.

use std::net::SocketAddr;

use qsm::DESCRIPTION_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::commands::relay::site_name;
use crate::group_name::check_pattern;

const VERSION: u32 = 1;

/// State of a gateway over its last seconds. What has no room in a description is left out, and counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GatewayState {
    #[serde(rename = "qsm_gateway")]
    version: u32,
    /// Its site.
    pub(crate) site: String,
    /// CPU time of its process, µs a second.
    #[serde(rename = "cpu")]
    pub(crate) cpu_us: u32,
    /// The stream of its site.
    pub(crate) out: OutwardState,
    /// Other sites that it receives.
    pub(crate) from: Vec<OtherSite>,
    /// Links that were left out.
    #[serde(rename = "more_links")]
    pub(crate) links_left_out: usize,
    /// Names and patterns of groups that it joins.
    pub(crate) groups: Vec<String>,
    /// Those that were left out.
    #[serde(rename = "more_groups")]
    pub(crate) groups_left_out: usize,
}

/// Stream that a gateway sends to other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OutwardState {
    /// Gateways of other sites that get it.
    pub(crate) gateways: u32,
    /// Round trip to the slowest of them, µs; 0: not measured.
    #[serde(rename = "trip")]
    pub(crate) round_trip_us: u32,
    /// Packets sent again, of a million.
    #[serde(rename = "loss")]
    pub(crate) loss_ppm: u32,
    /// Messages a second.
    pub(crate) messages: u64,
    /// Bytes a second in datagrams, both ways.
    pub(crate) bytes: u64,
}

/// A site that a gateway receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherSite {
    /// Its name.
    pub(crate) site: String,
    /// The gateway publishes its messages; else it stands by.
    pub(crate) publishes: bool,
    /// Memory of messages that the gateway keeps, bytes.
    #[serde(rename = "kept")]
    pub(crate) kept_bytes: u64,
    /// Ways from its gateways.
    pub(crate) links: Vec<LinkState>,
}

/// Way from a gateway of another site, or from a relay between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LinkRow", into = "LinkRow")]
pub(crate) struct LinkState {
    /// Where it is.
    pub(crate) at: SocketAddr,
    /// Reached, or not.
    pub(crate) reach: Reach,
    /// Round trip to the source of the stream, µs; 0: not measured.
    pub(crate) round_trip_us: u32,
    /// Packets that were repaired or are lost, of a million that came.
    pub(crate) loss_ppm: u32,
    /// Messages a second, also those that came by another way.
    pub(crate) messages: u64,
    /// Bytes a second in datagrams, both ways.
    pub(crate) bytes: u64,
}

/// Answers of a gateway of another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reach {
    /// It is asked, and has not answered yet.
    Asked,
    /// It answers.
    Reached,
    /// It has answered before, and does not any more.
    Silent,
}

impl Reach {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Asked => "does not answer",
            Self::Reached => "reached",
            Self::Silent => "silent",
        }
    }
}

/// A link without names, which would take more room than the rest.
type LinkRow = (SocketAddr, Reach, u32, u32, u64, u64);

impl From<LinkRow> for LinkState {
    fn from(row: LinkRow) -> Self {
        let (at, reach, round_trip_us, loss_ppm, messages, bytes) = row;
        Self {
            at,
            reach,
            round_trip_us,
            loss_ppm,
            messages,
            bytes,
        }
    }
}

impl From<LinkState> for LinkRow {
    fn from(link: LinkState) -> Self {
        let LinkState {
            at,
            reach,
            round_trip_us,
            loss_ppm,
            messages,
            bytes,
        } = link;
        (at, reach, round_trip_us, loss_ppm, messages, bytes)
    }
}

impl GatewayState {
    /// Of a gateway that sends its site's messages, and receives others'.
    pub(crate) fn new(site: &str, groups: &[String]) -> Self {
        Self {
            version: VERSION,
            site: site.to_owned(),
            cpu_us: 0,
            out: OutwardState::default(),
            from: Vec::new(),
            links_left_out: 0,
            groups: groups.to_vec(),
            groups_left_out: 0,
        }
    }

    /// As the description of a node, with as many links, and then groups, as there is room for.
    pub(crate) fn describe(mut self) -> String {
        let groups = core::mem::take(&mut self.groups);
        self.groups_left_out = groups.len();
        while self.text().len() > DESCRIPTION_BYTES_MAX && self.drop_link() {}
        let mut room = DESCRIPTION_BYTES_MAX.saturating_sub(self.text().len());
        for group in groups {
            // With a comma.
            let bytes = serde_json::to_string(&group).map_or(usize::MAX, |text| text.len() + 1);
            if bytes <= room {
                room -= bytes;
                self.groups.push(group);
                self.groups_left_out -= 1;
            }
        }
        self.text()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// False: there is none left.
    fn drop_link(&mut self) -> bool {
        let Some(last) = self.from.last_mut() else {
            return false;
        };
        match last.links.pop() {
            Some(_) => self.links_left_out += 1,
            None => drop(self.from.pop()),
        }
        true
    }

    /// The gateway that has this description; `None`: it is another one's, or its names are none.
    pub(crate) fn read(description: &str) -> Option<Self> {
        let state: Self = serde_json::from_str(description).ok()?;
        let mut sites = core::iter::once(&state.site).chain(state.from.iter().map(|it| &it.site));
        let is_sound = state.version == VERSION
            && sites.all(|site| site_name(site).is_ok())
            && state
                .groups
                .iter()
                .all(|group| check_pattern(group).is_ok());
        is_sound.then_some(state)
    }

    /// Tells whether it says that it joins the group.
    pub(super) fn names(&self, group: &str) -> bool {
        let matches =
            |pattern: &String| check_pattern(pattern).is_ok_and(|pattern| pattern.matches(group));
        self.groups.iter().any(matches)
    }

    /// Tells whether it joins the group, or has no room to say.
    pub(super) fn may_serve(&self, group: &str) -> bool {
        self.groups_left_out > 0 || self.names(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(port: u16) -> LinkState {
        LinkState {
            at: SocketAddr::from(([10, 20, 30, 40], port)),
            reach: Reach::Reached,
            round_trip_us: 40_000,
            loss_ppm: 5000,
            messages: 1000,
            bytes: 230_000,
        }
    }

    fn state(links: u16, groups: &[&str]) -> GatewayState {
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        let mut state = GatewayState::new("fra", &groups);
        state.from = vec![OtherSite {
            site: "lon".to_owned(),
            publishes: true,
            kept_bytes: 0,
            links: (0..links).map(link).collect(),
        }];
        state
    }

    #[test]
    fn a_gateway_is_read_as_it_was_described() {
        let state = state(2, &["prices/**", "a \"quoted\" group"]);
        let text = state.clone().describe();
        assert!(
            text.starts_with(r#"{"qsm_gateway":1,"site":"fra""#),
            "{text}"
        );
        assert_eq!(GatewayState::read(&text), Some(state.clone()));
        assert!(state.may_serve("prices/eur") && !state.may_serve("news"));
    }

    #[test]
    fn what_has_no_room_is_left_out_and_counted() {
        let long: Vec<String> = (0..500).map(|it| format!("prices/currency/{it}")).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        for (links, groups) in [(2, &long[..]), (500, &["news"]), (500, &long)] {
            let text = state(links, groups).describe();
            assert!(text.len() <= DESCRIPTION_BYTES_MAX, "{}", text.len());
            let read = GatewayState::read(&text).unwrap();
            let known: usize = read.from.iter().map(|it| it.links.len()).sum();
            assert_eq!(known + read.links_left_out, usize::from(links));
            assert_eq!(read.groups.len() + read.groups_left_out, groups.len());
            assert!(read.groups_left_out == 0 || read.may_serve("others"));
        }
        assert_eq!(
            state(8, &["news"]).describe().len(),
            state(8, &["news"]).text().len()
        );
    }

    #[test]
    fn what_no_gateway_says_is_none() {
        let text = state(1, &["news"]).describe();
        for (good, bad) in [
            ("qsm_gateway\":1", "qsm_gateway\":2"),
            ("\"fra\"", "\"f\\u001b[2Ja\""),
            ("\"lon\"", "\"\""),
            ("\"news\"", "\"ne\\nws\""),
            ("40000", "-1"),
            ("10.20.30.40:0", "nowhere"),
            ("}", ""),
        ] {
            assert!(text.contains(good), "{text}");
            assert_eq!(
                GatewayState::read(&text.replacen(good, bad, 1)),
                None,
                "{bad}"
            );
        }
        let deep = "[".repeat(DESCRIPTION_BYTES_MAX);
        for text in ["", "trading floor", "{}", "null", &deep] {
            assert_eq!(GatewayState::read(text), None);
        }
    }
}

//! A plan as a picture: a row for each region, a column for each channel of several regions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use qsm_plan::{Plan, PlannedChannel, PlannedRegion};
use qsm_wire::{ChannelId, GroupId, NodeId, RegionId};

use super::names::PlanNames;

/// Rows and columns drawn; what is left out is said.
const ROWS: usize = 40;
const COLUMNS: usize = 16;
/// Pixels.
const LEFT: usize = 24;
const TOP: usize = 124;
const ROW: usize = 56;
const BOX: usize = 380;
const COLUMN: usize = 52;
const COPIES: usize = 360;
/// Letters of a list that fit its place, with room for what is said of the rest.
const LETTERS: usize = 38;
/// Colours of domains, told apart also by those who see few colours.
const COLOURS: [&str; 6] = [
    "#1f618d", "#b9770e", "#6c3483", "#117864", "#943126", "#5d6d7e",
];

/// Copies that go to members of a region.
type Copies = BTreeMap<RegionId, Vec<(GroupId, NodeId)>>;

/// A picture while it is drawn.
struct Drawing<'a> {
    plan: &'a Plan,
    names: &'a PlanNames,
    regions: Vec<(RegionId, &'a PlannedRegion)>,
    channels: Vec<(ChannelId, &'a PlannedChannel)>,
    /// Groups that use a channel.
    used: BTreeMap<ChannelId, usize>,
    copies: Copies,
    text: String,
}

/// Draws a plan; the SVG's text.
pub(super) fn draw(plan: &Plan, names: &PlanNames) -> String {
    let mut used = BTreeMap::new();
    let mut homes = BTreeMap::new();
    for (id, region) in &plan.regions {
        homes.extend(region.members.iter().map(|node| (*node, *id)));
    }
    let mut copies: Copies = BTreeMap::new();
    for (group, planned) in &plan.groups {
        for id in planned.path.channels() {
            *used.entry(*id).or_insert(0) += 1;
        }
        for node in planned.path.copies() {
            if let Some(home) = homes.get(node) {
                copies.entry(*home).or_default().push((*group, *node));
            }
        }
    }
    let several = plan.channels.iter();
    let several = several.filter(|(_, channel)| channel.regions.len() > 1 || channel.pin.is_some());
    let mut channels: Vec<_> = several.map(|(id, channel)| (*id, channel)).collect();
    channels.sort_by_key(|(id, channel)| (std::cmp::Reverse(channel.regions.len()), *id));
    channels.truncate(COLUMNS);
    let regions = plan
        .regions
        .iter()
        .take(ROWS)
        .map(|(id, region)| (*id, region));
    let mut drawing = Drawing {
        plan,
        names,
        regions: regions.collect(),
        channels,
        used,
        copies,
        text: String::new(),
    };
    drawing.all();
    drawing.text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// As many as fit, and how many more there are.
fn fitting(words: impl Iterator<Item = String>, all: usize) -> String {
    let mut text = String::new();
    let mut shown = 0;
    for word in words {
        if shown > 0 && text.len() + word.len() > LETTERS {
            break;
        }
        if shown > 0 {
            text.push(' ');
        }
        text.push_str(&word);
        shown += 1;
    }
    if shown < all {
        _ = write!(text, " and {} more", all - shown);
    }
    escaped(&text)
}

impl Drawing<'_> {
    fn width(&self) -> usize {
        LEFT * 2 + BOX + self.channels.len() * COLUMN + COPIES
    }

    fn column(&self, at: usize) -> usize {
        LEFT + BOX + COLUMN / 2 + at * COLUMN + 8
    }

    fn copies_at(&self) -> usize {
        LEFT + BOX + self.channels.len() * COLUMN + 24
    }

    fn all(&mut self) {
        let (width, height) = (self.width(), TOP + self.regions.len() * ROW + 64);
        _ = writeln!(
            self.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>"
        );
        self.title();
        self.heads();
        for at in 0..self.channels.len() {
            self.channel(at);
        }
        for at in 0..self.regions.len() {
            self.region(at);
        }
        self.legend(height);
        self.text.push_str("</svg>\n");
    }

    fn write(&mut self, x: usize, y: usize, style: &str, text: &str) {
        _ = writeln!(self.text, "<text x=\"{x}\" y=\"{y}\" {style}>{text}</text>");
    }

    fn title(&mut self) {
        let totals = &self.plan.totals;
        let title = format!(
            "{} nodes, {} groups: {} regions, {} channels",
            totals.nodes,
            totals.groups,
            self.plan.regions.len(),
            self.plan.channels.len()
        );
        self.write(LEFT, 32, "font-size=\"18\" font-weight=\"bold\"", &title);
        let per = |part: u128| part as f64 / totals.messages.max(1) as f64;
        let share = 100.0 * totals.unwanted as f64 / totals.wanted.max(1) as f64;
        let average = format!(
            "a message takes {:.2} packets and {:.2} copies on average; {share:.2} % of deliveries are unwanted",
            per(totals.packets),
            per(totals.copies),
        );
        self.write(LEFT, 54, "fill=\"#555\"", &average);
    }

    fn heads(&mut self) {
        let style = "fill=\"#555\" font-weight=\"bold\"";
        self.write(LEFT, TOP - 14, style, "region and its nodes");
        self.write(
            self.copies_at(),
            TOP - 14,
            style,
            "residue: copies, group → node",
        );
    }

    fn channel(&mut self, at: usize) {
        let (id, channel) = self.channels[at];
        let x = self.column(at);
        let heard = |(id, _): &(RegionId, &PlannedRegion)| channel.regions.contains(id);
        let rows: Vec<usize> = (0..self.regions.len())
            .filter(|row| heard(&self.regions[*row]))
            .collect();
        let groups = self.used.get(&id).copied().unwrap_or(0);
        let name = channel
            .pin
            .as_deref()
            .map_or_else(|| format!("ch {}", id.0), escaped);
        let middle = "text-anchor=\"middle\"";
        self.write(
            x,
            TOP - 40,
            &format!("{middle} font-weight=\"bold\""),
            &name,
        );
        let small = format!("{middle} font-size=\"10\" fill=\"#555\"");
        self.write(x, TOP - 27, &small, &groups.to_string());
        let y = |row: usize| TOP + row * ROW + 22;
        if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
            _ = writeln!(
                self.text,
                "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\" stroke=\"#888\" stroke-width=\"2\"/>",
                TOP - 18,
                y(*last.max(first))
            );
        }
        for row in rows {
            _ = writeln!(
                self.text,
                "<circle cx=\"{x}\" cy=\"{}\" r=\"7\" fill=\"#222\"/>",
                y(row)
            );
        }
    }

    fn region(&mut self, at: usize) {
        let (id, region) = self.regions[at];
        let y = TOP + at * ROW;
        let colour = COLOURS[region.domain as usize % COLOURS.len()];
        let width = BOX - 16;
        _ = writeln!(
            self.text,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width}\" height=\"44\" rx=\"6\" fill=\"{colour}\" \
             fill-opacity=\"0.1\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
        let own = self.plan.channels.iter();
        let mut own = own.filter(|(_, channel)| channel.regions == [id] && channel.pin.is_none());
        let address = match own.next() {
            Some((channel, _)) => {
                let groups = self.used.get(channel).copied().unwrap_or(0);
                format!("ch {}: {groups} groups", channel.0)
            }
            None if region.members.len() == 1 => "one node: copies".to_owned(),
            None => "no own address".to_owned(),
        };
        let head = format!(
            "region {} · {} nodes · {address}",
            id.0,
            region.members.len()
        );
        self.write(LEFT + 10, y + 18, "font-weight=\"bold\"", &head);
        let nodes = region
            .members
            .iter()
            .map(|node| self.names.node(*node).to_owned());
        let nodes = fitting(nodes, region.members.len());
        self.write(LEFT + 10, y + 35, "font-size=\"11\" fill=\"#444\"", &nodes);
        let Some(copies) = self.copies.get(&id) else {
            return;
        };
        let words = copies.iter().map(|(group, node)| {
            format!("{}→{}", self.names.group(*group), self.names.node(*node))
        });
        let (list, count) = (fitting(words, copies.len()), copies.len());
        let x = self.copies_at();
        self.write(
            x,
            y + 18,
            "fill=\"#943126\" font-weight=\"bold\"",
            &format!("{count} copies"),
        );
        self.write(x, y + 35, "font-size=\"11\" fill=\"#943126\"", &list);
    }

    fn legend(&mut self, height: usize) {
        let mut legend = String::from(
            "● the region listens to the channel; a channel\u{2019}s number of groups is below its name.",
        );
        let rows = self.plan.regions.len() - self.regions.len();
        if rows > 0 {
            _ = write!(legend, " Regions left out: {rows}.");
        }
        let several = self.plan.channels.values();
        let several = several.filter(|channel| channel.regions.len() > 1 || channel.pin.is_some());
        let columns = several.count() - self.channels.len();
        if columns > 0 {
            _ = write!(legend, " Channels left out: {columns}.");
        }
        self.write(LEFT, height - 24, "fill=\"#555\"", &legend);
    }
}

#[cfg(test)]
mod tests {
    use qsm_plan::layouts::Layout;
    use qsm_plan::{Hints, Planner, Settings};
    use qsm_wire::{Instant, Random, Seed};

    use super::super::file::Subscriptions;
    use super::*;

    #[test]
    fn a_picture_has_every_region_and_its_residue() {
        let layout = Layout::PrivateGroups { nodes: 12 };
        let drawn = Subscriptions::drawn(&layout, Seed(1));
        let mut random = Random::new(Seed(1), "plan");
        let mut planner = Planner::new(Settings::default(), Hints::default(), &mut random).unwrap();
        let mut names = drawn.load(&mut planner);
        names.nodes[3] = "a<b&c".to_owned();
        planner.start(Instant(0)).unwrap();
        planner.finish();
        let text = draw(&planner.plan(), &names);
        assert!(
            text.contains("12 nodes, 22 groups: 1 regions, 1 channels"),
            "{text}"
        );
        assert!(
            text.contains("12 copies") && text.contains("g10→n0"),
            "{text}"
        );
        assert!(
            text.contains("a&lt;b&amp;c") && !text.contains("a<b"),
            "{text}"
        );
    }
}

// The picture: each region a ring of its members around their channel, nodes in no region apart.
//
// It is laid out anew only when regions or their members change; else signs of nodes change alone.

import { rate, text } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const LABELS_MAX = 14;
// Members of a region that are drawn; of more, those in trouble and the first ones.
const MEMBERS_MAX = 300;
const NAME_CHARACTERS = 14;
const ENLARGED_MAX = 1.6;

export class Topology {
  constructor(place, caption, opened) {
    this.place = place;
    this.caption = caption;
    this.opened = opened;
    this.dots = [];
    this.shape = "";
    this.width = 0;
    this.marks = null;
    this.svg = svg("svg", { role: "group", "aria-label": "Nodes by region; arrow keys go from node to node, Enter explains" });
    this.svg.id = "picture";
    place.append(this.svg);
    this.svg.addEventListener("keydown", (event) => this.press(event));
    for (const kind of ["pointerover", "focusin"]) {
      this.svg.addEventListener(kind, (event) => this.say(this.dotOf(event.target)));
    }
    this.svg.addEventListener("pointerleave", () => this.say(null));
    this.svg.addEventListener("click", (event) => this.open(event.target));
    new ResizeObserver(() => this.resized()).observe(place);
  }

  resized() {
    const width = this.place.clientWidth;
    if (width === this.width || width === 0) return;
    this.width = width;
    this.shape = "";
    if (this.model) this.draw(this.model);
  }

  draw(model) {
    this.model = model;
    if (this.width === 0) return;
    const blocks = blocksOf(model);
    const shape = blocks.map((block) => `${block.key}:${block.keys.join(",")}`).join(";");
    const drawn = shape === this.shape;
    if (!drawn) {
      this.shape = shape;
      this.lay(blocks);
    }
    this.paint();
    if (!drawn) this.join();
  }

  lay(blocks) {
    const focused = this.dots.find((dot) => dot.sign === document.activeElement)?.id;
    this.svg.replaceChildren();
    this.dots = [];
    this.hubs = new Map();
    this.paths = svg("g", {});
    this.svg.append(this.paths);
    const sizes = blocks.map(sizeOf);
    const widest = Math.max(0, ...sizes.map((size) => size.width));
    // What is wider than the place is made smaller, and a small picture larger.
    const all = sizes.reduce((sum, size) => sum + size.width, 0);
    const width = Math.max(Math.min(this.width, all), widest, this.width / ENLARGED_MAX);
    let [x, y, height] = [0, 0, 0];
    const rows = [[]];
    blocks.forEach((block, at) => {
      const size = sizes[at];
      if (x > 0 && x + size.width > width) {
        [x, y, height] = [0, y + height, 0];
        rows.push([]);
      }
      rows.at(-1).push({ block, size, x, y });
      x += size.width;
      height = Math.max(height, size.height);
    });
    for (const row of rows) {
      const used = row.reduce((sum, it) => sum + it.size.width, 0);
      const high = Math.max(0, ...row.map((it) => it.size.height));
      const shift = (width - used) / 2;
      for (const it of row) this.layBlock(it.block, it.size, it.x + shift, it.y, high);
    }
    this.svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(y + height, 60)}`);
    this.dots.forEach((dot, at) => dot.sign.setAttribute("tabindex", at === 0 ? "0" : "-1"));
    if (focused) this.focus(this.dots.find((dot) => dot.id === focused) ?? this.dots[0]);
  }

  layBlock(block, size, x, y, high) {
    const [cx, cy] = [x + size.width / 2, y + (high - 36) / 2];
    const group = svg("g", { class: "block" });
    const lines = svg("g", {});
    group.append(lines);
    let hub = null;
    if (block.region) {
      hub = svg("circle", { class: "hub", cx, cy, r: 7 });
      hub.dataset.region = block.key;
      group.append(hub);
      this.hubs.set(block.region.region, { group, cx, cy });
    }
    block.keys.forEach((key, at) => {
      const [dx, dy, ring] = size.spots[at];
      const [px, py] = [cx + dx, cy + dy];
      const line = hub ? svg("line", { class: "spoke", x1: cx, y1: cy, x2: px, y2: py }) : null;
      if (line) lines.append(line);
      const sign = svg("g", { class: "node", role: "button", transform: `translate(${px} ${py})` });
      sign.append(svg("circle", { class: "ring", r: size.dot + 3.5 }), svg("circle", { class: "dot", r: size.dot }));
      const label = size.labels ? this.label(dx, dy, size, ring) : null;
      if (label) sign.append(label);
      group.append(sign);
      this.dots.push({ id: `${block.key} ${key}`, key, sign, line, label, x: px, y: py, region: block.region?.region });
    });
    const bottom = y + high - 20;
    group.append(label(cx, bottom, block.title, "block-title"), label(cx, bottom + 14, block.about, "block-about"));
    this.svg.append(group);
  }

  label(dx, dy, size, ring) {
    if (!ring) return label(0, size.dot + 15, "", "name");
    const side = Math.abs(dx) < 12 ? "middle" : dx > 0 ? "start" : "end";
    const away = size.dot + 6;
    const x = side === "middle" ? 0 : Math.sign(dx) * away;
    const y = side === "middle" ? Math.sign(dy) * away + (dy > 0 ? 8 : 0) : 4;
    const made = label(x, y, "", "name");
    made.setAttribute("text-anchor", side);
    return made;
  }

  // Signs of nodes, where they have changed.
  paint() {
    const { rows } = this.model.tables.nodes;
    const unicast = alone(this.model);
    for (const dot of this.dots) {
      const row = rows.get(dot.key);
      dot.row = row;
      const health = row?.health ?? "gone";
      const copied = this.marks?.copies.has(row?.name);
      const chosen = row && this.marks?.name === row.name ? " chosen" : "";
      const sends = this.marks?.publishers.includes(row?.name) ? " sends" : "";
      const look = `node ${health}${unicast.has(dot.key) ? " unicast" : ""}${chosen}${sends}`;
      if (dot.look !== look) dot.sign.setAttribute("class", (dot.look = look));
      const path = `spoke ${copied && health === "good" ? "doubtful" : health}`;
      if (dot.line && dot.path !== path) dot.line.setAttribute("class", (dot.path = path));
      const name = row?.name ?? dot.key;
      const said = `${name}, ${row?.trouble ?? (row ? "live" : "not in the list of nodes")}`;
      if (dot.said !== said) dot.sign.setAttribute("aria-label", (dot.said = said));
      const short = name.length > NAME_CHARACTERS ? `${name.slice(0, NAME_CHARACTERS - 1)}…` : name;
      if (dot.label && dot.short !== short) dot.label.textContent = dot.short = short;
    }
  }

  // Marks what an explanation tells of: { name, regions, publishers, copies }; null: nothing.
  mark(marks) {
    this.marks = marks && { ...marks, copies: new Set(marks.copies) };
    this.join();
    if (this.model) this.paint();
  }

  // Joins publishers with the regions that they are marked with.
  join() {
    const { marks } = this;
    this.svg.classList.toggle("marked", Boolean(marks?.regions.length));
    this.paths?.replaceChildren();
    for (const [region, hub] of this.hubs ?? []) {
      const on = Boolean(marks?.regions.includes(region));
      hub.group.classList.toggle("on", on);
      const publishers = new Set(on ? marks.publishers : []);
      for (const dot of this.dots) {
        if (!publishers.has(dot.row?.name) || dot.region === region) continue;
        this.paths.append(svg("line", { class: "send", x1: dot.x, y1: dot.y, x2: hub.cx, y2: hub.cy }));
      }
    }
  }

  dotOf(target) {
    return this.dots.find((dot) => dot.sign.contains(target)) ?? null;
  }

  say(dot) {
    const row = dot?.row;
    const host = row?.host ? ` on ${row.host}` : "";
    this.caption.textContent = row
      ? `${row.name}${host}: ${row.trouble ?? "live"}; ${rate(row.sent_per_second)} messages/s sent, ${rate(row.received_per_second)} received; ${text(row.address)}`
      : "";
  }

  open(target) {
    const dot = this.dotOf(target);
    if (dot?.row) {
      this.focus(dot);
      this.opened("nodes", dot.row);
    }
    const region = target.dataset?.region;
    const row = region && this.model.tables.regions.rows.get(region);
    if (row) this.opened("regions", row);
  }

  focus(dot) {
    if (!dot) return;
    for (const other of this.dots) {
      const stop = other === dot ? "0" : "-1";
      if (other.sign.getAttribute("tabindex") !== stop) other.sign.setAttribute("tabindex", stop);
    }
    dot.sign.focus();
  }

  focusFirst() {
    this.focus(this.dots.find((dot) => dot.sign.getAttribute("tabindex") === "0"));
  }

  press(event) {
    const here = this.dotOf(event.target);
    if (!here) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (here.row) this.opened("nodes", here.row);
    }
    const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    this.focus(this.next(here, way) ?? here);
  }

  // The nearest node in a direction; what lies aside counts as farther.
  next(here, [right, down]) {
    let [best, least] = [null, Infinity];
    for (const dot of this.dots) {
      const [dx, dy] = [dot.x - here.x, dot.y - here.y];
      const ahead = dx * right + dy * down;
      const aside = Math.abs(dx * down) + Math.abs(dy * right);
      if (ahead > 0.5 && ahead + 2 * aside < least) [best, least] = [dot, ahead + 2 * aside];
    }
    return best;
  }
}

// Nodes that are reached by a region of their own, by unicast.
function alone(model) {
  const keys = new Set();
  for (const region of model.tables.regions.rows.values()) {
    if (isPrivate(region)) keys.add(region.who[0]);
  }
  return keys;
}

const isPrivate = (region) => !region.multicast && region.members === 1;

function blocksOf(model) {
  const shared = [...model.tables.regions.rows.values()].filter((region) => !isPrivate(region));
  shared.sort((a, b) => b.members - a.members || a.region - b.region);
  const { rows } = model.tables.nodes;
  const placed = new Set(shared.flatMap((region) => region.who));
  const unicast = alone(model);
  const rest = [...rows.values()].filter((row) => !placed.has(row.key));
  const blocks = [];
  const apart = (key, keys, title, about) => {
    if (keys.length > 0) blocks.push({ key, title, about, ...drawn(keys, rows) });
  };
  const keys = (wanted) => rest.filter((row) => unicast.has(row.key) === wanted).map((row) => row.key);
  apart("none", keys(false), "in no region", "they publish, or are idle");
  for (const region of shared) {
    const groups = `${region.groups} ${region.groups === 1 ? "group" : "groups"}, ${region.address}`;
    const members = `${region.members} ${region.members === 1 ? "member" : "members"}`;
    const { keys: some, left } = drawn(region.who, rows);
    const title = `region ${region.region}: ${members}${left ? `, ${left} not drawn` : ""}`;
    blocks.push({ key: region.key, region, title, about: groups, keys: some });
  }
  apart("alone", keys(true), "by unicast alone", "each in a private region");
  return blocks;
}

function drawn(keys, rows) {
  if (keys.length <= MEMBERS_MAX) return { keys, left: 0 };
  const wrong = (key) => (rows.get(key)?.health === "good" ? 1 : 0);
  const some = [...keys].sort((a, b) => wrong(a) - wrong(b)).slice(0, MEMBERS_MAX);
  return { keys: some, left: keys.length - some.length };
}

// Spots of nodes around the middle of a block, and its size with names.
function sizeOf(block) {
  const number = block.keys.length;
  const labels = number <= LABELS_MAX;
  const dot = number <= 40 ? 7 : 5;
  const spots = block.region ? rings(number, labels) : grid(number, labels);
  const reach = (at) => Math.max(0, ...spots.map((spot) => Math.abs(spot[at])));
  const side = labels ? (block.region ? 100 : 52) : 24;
  return {
    labels,
    dot,
    spots,
    width: Math.max(2 * (reach(0) + side), 210),
    height: 2 * (reach(1) + (labels ? 30 : 20)) + 36,
  };
}

// Circles around the channel, filled alike.
function rings(number, labels) {
  const space = labels ? 38 : 18;
  const radii = [];
  const rooms = [];
  let room = 0;
  for (let radius = labels ? Math.max(46, (number * space) / (2 * Math.PI)) : 44; room < number; radius += 20) {
    radii.push(radius);
    rooms.push(labels ? number : Math.floor((2 * Math.PI * radius) / space));
    room += rooms.at(-1);
  }
  const spots = [];
  let passed = 0;
  radii.forEach((radius, ring) => {
    passed += rooms[ring];
    const here = Math.round((number * passed) / room) - spots.length;
    for (let at = 0; at < here; at += 1) {
      const angle = ((at + (ring % 2) / 2) / here) * 2 * Math.PI - Math.PI / 2;
      spots.push([radius * Math.cos(angle), radius * Math.sin(angle), true]);
    }
  });
  return spots;
}

function grid(number, labels) {
  const [wide, high] = labels ? [104, 46] : [20, 20];
  const columns = labels ? Math.min(number, 2) : Math.ceil(Math.sqrt(number));
  const rows = Math.ceil(number / columns);
  return Array.from({ length: number }, (_, at) => [
    ((at % columns) - (columns - 1) / 2) * wide,
    (Math.floor(at / columns) - (rows - 1) / 2) * high,
    false,
  ]);
}

function svg(kind, attributes) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

function label(x, y, words, look) {
  const made = svg("text", { x, y, class: look, "text-anchor": "middle" });
  made.textContent = words;
  return made;
}

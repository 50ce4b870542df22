// The page: what is told is taken into the model, and drawn at most once for each frame.

import { Charts } from "./charts.js";
import { Model } from "./model.js";
import { Panel } from "./panel.js";
import { Stream, takeToken } from "./stream.js";
import { Table, node } from "./table.js";
import { Topology } from "./topology.js";
import { count, rate, seconds, text } from "./words.js";

const PROBLEMS_MAX = 6;
const NAMES_MAX = 8;

const at = (id) => document.getElementById(id);
const field = (name, label, more) => ({ label, of: (row) => row[name], ...more });
const number = (name, label, shown = count, width = "7rem") => field(name, label, { number: true, shown, width });
const state = (row) => row.trouble ?? "live";
const load = (...fields) => (row) => fields.reduce((sum, name) => sum + (row[name] ?? 0), 0);
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

const TABLES = {
  nodes: {
    label: "Nodes",
    empty: "No node is known.",
    load: load("sent_per_second", "received_per_second"),
    columns: [
      field("name", "Node"),
      { label: "State", of: state, width: "minmax(8rem, 1.4fr)" },
      number("sent_per_second", "Sent/s"),
      number("received_per_second", "Received/s"),
      number("receives", "Receives"),
      number("publishes", "Publishes"),
      field("region", "Region", { shown: text }),
      field("host", "Host", { shown: text }),
      field("address", "Address", { shown: text }),
    ],
  },
  groups: {
    label: "Groups",
    empty: "No group is known.",
    load: load("regions"),
    columns: [
      field("name", "Group", { width: "minmax(8rem, 2fr)" }),
      number("members", "Members"),
      number("publishers", "Publishers"),
      number("regions", "Packets/message", count, "9rem"),
      { label: "Trouble", of: (row) => row.trouble, shown: text, width: "minmax(8rem, 2fr)" },
    ],
  },
  regions: {
    label: "Regions",
    empty: "No region is known.",
    load: load("members"),
    columns: [
      field("name", "Region"),
      number("view", "View"),
      field("address", "Address", { shown: text }),
      { label: "Path", of: (row) => (row.multicast ? "multicast" : "unicast"), width: "6rem" },
      number("groups", "Groups"),
      number("members", "Members"),
      number("away_members", "Away"),
    ],
  },
  here: {
    label: "This host",
    empty: "No node of this host can be asked.",
    load: load("sent_per_second", "received_per_second"),
    columns: [
      field("name", "Node"),
      number("pid", "Process", text),
      number("sent_per_second", "Sent/s", rate),
      number("received_per_second", "Received/s", rate),
      number("missing_per_second", "Missing/s", rate),
      number("repaired_per_second", "Repaired/s", rate),
      number("repair_p99_seconds", "Repair 99 %", seconds),
      number("stable_p99_seconds", "At all 99 %", seconds),
      number("pending_messages", "Pending"),
      number("late_seconds", "Late", seconds),
      { label: "Trouble", of: (row) => row.trouble, shown: text, width: "minmax(10rem, 2fr)" },
    ],
  },
  events: {
    label: "Events",
    empty: "Nothing has happened since a page was opened first.",
    ordered: true,
    load: () => 0,
    columns: [
      field("time", "Time", { shown: (time) => clock.format(time), width: "6rem" }),
      field("about", "What", { width: "6rem" }),
      field("name", "Name"),
      field("text", "Happened", { width: "minmax(12rem, 3fr)" }),
    ],
  },
};
const NAMES = Object.keys(TABLES);
// Tables of what events tell.
const ABOUT = { node: "nodes", group: "groups", region: "regions", "node here": "here" };

const model = new Model();
const tables = {};
const tabs = {};
let shown = "nodes";
let link = "connecting";
let wanted = false;

takeToken();

const panel = new Panel(at("panel"), {
  facts,
  marked: (explanation, name) => topology.mark(explanation ? { ...explanation, name } : marksOfPanel()),
  tokenGiven: () => stream.restart(),
});
const topology = new Topology(at("topology"), at("topology-caption"), open);
const charts = new Charts(at("charts"), () => panel.openForToken());
buildTables();

const stream = new Stream(
  (kind, data) => {
    if (kind === "whole") model.takeWhole(data);
    else if (kind === "change") model.takeChange(data);
    draw();
  },
  (word) => {
    link = word;
    drawState();
  },
);

document.addEventListener("visibilitychange", draw);
document.addEventListener("keydown", press);
at("filter").addEventListener("input", draw);
setInterval(drawState, 1000);

function draw() {
  if (wanted || document.hidden) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    drawState();
    drawSummary();
    drawProblems();
    topology.draw(model);
    charts.draw(model);
    drawTables();
    panel.refresh(model);
  });
}

// A node that is selected is marked in the picture without an explanation, too.
function marksOfPanel() {
  const name = panel.shown?.kind === "node" ? panel.shown.name : null;
  const region = panel.shown?.kind === "region" ? [Number(panel.shown.name)] : [];
  return panel.shown ? { name, regions: region, publishers: [], copies: [] } : null;
}

function open(table, row) {
  panel.open(table, row);
}

function facts(table, row) {
  const skipped = new Set(["Trouble", "State", "Name"]);
  const pairs = TABLES[table].columns.slice(1).filter((column) => !skipped.has(column.label));
  const words = pairs.map((column) => {
    const value = column.of(row);
    return [column.label, column.shown ? column.shown(value) : text(value)];
  });
  if (table === "regions") words.push(["Who", who(row)]);
  if (table === "nodes") words.push(["Version", text(row.version)], ["Id", row.key]);
  return words;
}

function who(region) {
  const names = region.who.slice(0, 60).map((key) => model.tables.nodes.rows.get(key)?.name ?? key);
  return names.join(", ") + (region.who.length > names.length ? " …" : "");
}

function drawState() {
  const age = model.heard === null ? 0 : Math.round((performance.now() - model.heard) / 1000);
  let [look, words] = ["good", "live"];
  if (link === "connecting") [look, words] = ["doubtful", "connecting …"];
  else if (link === "refused") [look, words] = ["bad", "the token was refused"];
  else if (link === "lost") [look, words] = ["bad", `no connection to qsm dash; trying again. What is shown is ${age} s old`];
  else if (model.absent) [look, words] = ["bad", model.heard === null ? model.absent : `${model.absent}; the lists are ${age} s old`];
  const place = at("state");
  if (place.className !== `state ${look}`) place.className = `state ${look}`;
  if (place.textContent !== words) place.textContent = words;
}

function drawSummary() {
  if (model.seen === 0) return;
  let [away, deaf] = [0, 0];
  for (const row of model.tables.nodes.rows.values()) {
    if (row.away) away += 1;
    if (row.deaf) deaf += 1;
  }
  const point = model.points.at(-1);
  const counted = (sum, word) => `${count(sum)} ${word}${sum === 1 ? "" : "s"}`;
  const words = [
    counted(model.tables.nodes.total, "node"),
    away ? `${count(away)} away` : "",
    deaf ? `${count(deaf)} deaf` : "",
    counted(model.tables.groups.total, "group"),
    counted(model.tables.regions.total, "region"),
    point?.sent != null ? `${rate(point.sent)} messages/s sent, ${rate(point.received)} received` : "",
  ];
  const line = words.filter(Boolean).join(" · ");
  if (at("summary").textContent !== line) at("summary").textContent = line;
}

let toldProblems = null;

function drawProblems() {
  const problems = model.problems();
  const told = JSON.stringify([model.seen > 0, problems.map((it) => [it.table, it.health, it.trouble, it.rows.length, it.rows.slice(0, NAMES_MAX).map((row) => row.name)])]);
  if (told === toldProblems) return;
  toldProblems = told;
  const cards = problems.slice(0, PROBLEMS_MAX).map(problemCard);
  const rest = problems.length - cards.length;
  if (rest > 0) cards.push(node("p", "more", `and ${rest} more: on top of the tables`));
  if (cards.length === 0 && model.seen > 0) cards.push(node("p", "well", "Nothing is wrong."));
  at("problems").replaceChildren(...cards);
}

function problemCard({ table, health, trouble, remedy, rows }) {
  const card = node("button", `problem ${health}`);
  card.type = "button";
  const one = rows.length === 1;
  const title = node("strong");
  const word = { nodes: "node", here: "node here", groups: "group", regions: "region" }[table];
  title.append(one ? `${word} ` : `${count(rows.length)} ${word === "node here" ? "nodes here" : `${word}s`}`);
  if (one) title.append(node("bdi", "", rows[0].name));
  const names = node("span", "names");
  if (!one) {
    names.append(...rows.slice(0, NAMES_MAX).flatMap((row, at) => [at ? ", " : "", node("bdi", "", row.name)]));
    if (rows.length > NAMES_MAX) names.append(" …");
  }
  card.append(node("span", "sign-text", health === "bad" ? "✕" : "▲"), title, node("span", "what", trouble), names, node("span", "remedy", remedy ?? ""));
  card.addEventListener("click", () => {
    show(table);
    if (one) {
      tables[table].select(rows[0].key);
      open(table, rows[0]);
    }
  });
  return card;
}

function buildTables() {
  NAMES.forEach((name, place) => {
    const opened = name === "events" ? openEvent : (row) => open(name, row);
    const table = (tables[name] = new Table(TABLES[name], opened));
    const tab = (tabs[name] = node("button", "tab"));
    tab.type = "button";
    tab.id = `tab-${name}`;
    tab.setAttribute("role", "tab");
    tab.title = `key ${place + 1}`;
    tab.append(TABLES[name].label, node("span", "number-of"));
    tab.addEventListener("click", () => show(name));
    at("tabs").append(tab);
    const frame = node("div", "tab-panel");
    frame.id = `panel-${name}`;
    frame.setAttribute("role", "tabpanel");
    frame.setAttribute("aria-labelledby", tab.id);
    tab.setAttribute("aria-controls", frame.id);
    frame.append(table.element);
    at("tables").append(frame);
  });
  at("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    show(NAMES[(NAMES.indexOf(shown) + step + NAMES.length) % NAMES.length]);
    tabs[shown].focus();
  });
  show(shown);
}

function openEvent(event) {
  const table = ABOUT[event.about];
  const row = [...model.tables[table].rows.values()].find((it) => it.name === event.name);
  if (row) open(table, row);
}

function show(name) {
  shown = name;
  for (const [other, tab] of Object.entries(tabs)) {
    const chosen = other === name;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    at(`panel-${other}`).hidden = !chosen;
  }
  drawTables();
}

function drawTables() {
  for (const [name, tab] of Object.entries(tabs)) {
    const sum = name === "events" ? model.events.length : model.tables[name].total;
    const words = name === "here" && model.rights !== "all" ? "" : count(sum);
    if (tab.lastChild.textContent !== words) tab.lastChild.textContent = words;
  }
  const filter = at("filter").value;
  if (shown === "events") tables.events.show(model.events, model.eventCount, filter);
  else tables[shown].show(model.tables[shown].rows.values(), model.tables[shown].version, filter);
  drawNote();
}

function drawNote() {
  let words = "";
  if (shown === "here" && model.rights !== "all") words = "Nodes of this host are shown to holders of the token.";
  else if (shown !== "events") {
    const { rows, total } = model.tables[shown];
    if (rows.size < total) words = `${count(rows.size)} of ${count(total)} are here, those with trouble first; \`qsm ${shown}\` has all.`;
  }
  if (at("note").textContent !== words) at("note").textContent = words;
}

function press(event) {
  if (event.key === "Escape") {
    if (document.activeElement === at("filter") && at("filter").value) {
      at("filter").value = "";
      draw();
    } else panel.close();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input")) return;
  const table = NAMES[Number(event.key) - 1];
  if (table) {
    show(table);
    tables[table].element.focus();
  } else if (event.key === "/") {
    event.preventDefault();
    at("filter").focus();
  } else if (event.key === "t") topology.focusFirst();
}

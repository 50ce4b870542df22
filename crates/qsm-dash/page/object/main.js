// The page of an object: what is told is taken into the model, and drawn at most once for each frame.

import { Model, byKey, byTime } from "./rows.js";
import { Stream, takeToken } from "./stream.js";
import { Table, node } from "./table.js";
import { tokenForm } from "./token.js";
import { Value } from "./value.js";
import { count } from "./words.js";

// A row that has changed is marked for so long.
const FRESH_MS = 1500;

const at = (id) => document.getElementById(id);
const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const when = (row) => clock.format(row.time / 1000);
const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function bytes(size) {
  if (size >= 1 << 20) return `${Number((size / (1 << 20)).toPrecision(3))} MiB`;
  return size >= 10000 ? `${Math.round(size / 1024)} KiB` : `${count(size)} B`;
}

const content = { label: "Content", of: (row) => row.brief, width: "minmax(10rem, 5fr)" };
const size = { label: "Size", of: (row) => row.size, shown: (value) => (value === null ? "" : bytes(value)), number: true, width: "6rem" };
const time = (label) => ({ label, of: (row) => row.time, shown: (value) => clock.format(value / 1000), width: "12rem" });
const form = { label: "Form", of: (row) => (row.form === "object" ? row.remark : row.form), width: "7rem" };

const lines = { ordered: true, follows: true };
const KINDS = {
  map: {
    label: "Entries",
    word: "entry",
    empty: "There is no entry.",
    order: byKey,
    columns: [{ label: "Key", of: (row) => row.key, width: "minmax(8rem, 2fr)" }, { ...content, label: "Value" }, form, size, time("Written")],
  },
  log: { ...lines, label: "Entries", word: "entry", empty: "There is no entry.", columns: [time("Written"), content, form, size] },
  messages: {
    ...lines,
    label: "Messages",
    word: "message",
    empty: "No message has come since this page was started.",
    columns: [
      time("Came"),
      { label: "Sender", of: (row) => row.sender ?? "", width: "9rem" },
      { label: "Number", of: (row) => row.number, shown: (value) => (value == null ? "" : count(value)), number: true, width: "6rem" },
      content,
      form,
      size,
    ],
  },
};

const model = new Model();
let table = null;
let writing = null;
let link = "connecting";
let wanted = false;
let drawn = -1;

takeToken();

const value = new Value(at("panel"), facts, sizeOf);
const stream = new Stream(
  (kind, data) => {
    if (kind === "whole") {
      model.takeWhole(data);
      build();
    } else if (kind === "change") model.takeChange(data, performance.now());
    draw();
  },
  (word) => {
    // Its stream goes on trying without a token.
    if (link === "refused" && (word === "lost" || word === "locked")) return;
    link = word;
    drawState();
  },
);

document.addEventListener("visibilitychange", draw);
document.addEventListener("keydown", press);
at("filter").addEventListener("input", draw);

// Begins the page of a kind of object.
function build() {
  const kind = KINDS[model.object];
  at("name").textContent = model.group;
  document.title = model.group;
  const what = kind ? { map: "map", log: "log", messages: "messages of a group" }[model.object] : "text";
  at("summary").textContent = `${what} · cluster ${model.cluster}`;
  at("filter-label").hidden = !kind;
  at("keys").textContent = kind ? "↑ ↓ line · Enter all of it · / only with · Esc close" : "";
  value.close();
  drawn = -1;
  if (kind) {
    const spec = { ...kind, load: () => 0, holds: (row, words) => row.seen.includes(words), look };
    table = new Table(spec, (row) => value.open(titled(row)));
    at("content").replaceChildren(table.element);
  } else {
    writing = node("pre", "writing");
    writing.tabIndex = 0;
    writing.setAttribute("aria-label", "Text");
    at("content").replaceChildren(writing);
  }
}

function draw() {
  if (wanted || document.hidden) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    drawState();
    if (KINDS[model.object]) drawRows();
    else if (model.object) drawText();
  });
}

function drawRows() {
  const rows = [...model.rows.values()];
  if (model.object === "log") rows.sort(byTime);
  table.show(rows, model.version, at("filter").value);
  value.refresh({ get: (key) => (model.rows.has(key) ? titled(model.rows.get(key)) : null) });
  const here = count(rows.length);
  const kind = KINDS[model.object];
  const words = rows.length === 1 ? `1 ${kind.word}` : `${here} ${kind.label.toLowerCase()}`;
  write(at("counts"), table.rows.length < rows.length ? `${count(table.rows.length)} of ${words}` : words);
  write(at("note"), cuts());
  fade(rows);
}

// What is not here.
function cuts() {
  const { rows, bytes: all, value: each } = model.limits;
  const words = [];
  if (model.leftOut > 0) {
    words.push(
      model.object === "map"
        ? `Entries that changed longest ago are left out: at most ${count(rows)} and ${bytes(all)} are here; \`qsm open\` on the terminal has all.`
        : `${many(model.leftOut, "older line")} left out: at most ${count(rows)} and ${bytes(all)} are here.`,
    );
  }
  if (model.unread > 0) words.push(`${count(model.unread)} of them came faster than this page reads.`);
  if ([...model.rows.values()].some((row) => row.cut)) words.push(`Of a long value the first ${bytes(each)} are shown.`);
  return words.join(" ");
}

function drawText() {
  write(at("counts"), bytes(model.textSize));
  write(at("note"), model.textCut ? `The first ${bytes(new Blob([model.text]).size)} of it are shown.` : "");
  const fresh = performance.now() - model.changed < FRESH_MS;
  if (fresh) later();
  const told = `${model.version} ${fresh}`;
  if (told === drawn) return;
  drawn = told;
  const [from, to] = fresh ? model.written : [0, 0];
  const { scrollTop } = writing;
  const mark = fresh && from < to ? [node("mark", "", model.text.slice(from, to))] : [];
  writing.replaceChildren(model.text.slice(0, from), ...mark, model.text.slice(to));
  writing.scrollTop = scrollTop;
}

// Marks go when their time is over.
function fade(rows) {
  const now = performance.now();
  if (rows.some((row) => now - row.changed < FRESH_MS)) later();
}

let waiting = false;

function later() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    table?.draw();
    draw();
  }, FRESH_MS / 3);
}

function look(row) {
  if (row.form === "missing") return "missing";
  return performance.now() - row.changed < FRESH_MS ? "fresh" : "";
}

function drawState() {
  let [health, words] = ["good", "live"];
  if (link === "connecting") [health, words] = ["doubtful", "connecting …"];
  else if (link === "locked") [health, words] = ["doubtful", "locked"];
  else if (link === "refused") [health, words] = ["bad", "the token was refused"];
  else if (link === "lost") [health, words] = ["bad", "no connection to qsm open; trying again. What is shown is old"];
  else if (model.word) [health, words] = [model.well ? "good" : "bad", model.word];
  if (at("state").className !== `state ${health}`) at("state").className = `state ${health}`;
  write(at("state"), words);
  const locked = link === "locked" || link === "refused";
  at("object").hidden = locked || !model.object;
  if (locked === !at("locked").hidden) return;
  at("locked").hidden = !locked;
  if (locked) at("locked").replaceChildren(tokenForm("The object is shown to holders of the token.", () => stream.restart()));
}

function titled(row) {
  row.title ??= model.object === "map" ? row.key : when(row);
  return row;
}

function facts(row) {
  const pairs = [["Written", when(row)], ["Form", row.form]];
  if (row.sender) pairs.push(["Sender", row.sender]);
  if (row.number != null) pairs.push(["Number", count(row.number)]);
  if (row.remark) pairs.push([row.form === "object" ? "Type" : "Remark", row.remark]);
  return pairs;
}

function sizeOf(row) {
  if (row.form === "missing") return "";
  return row.cut ? `The first ${bytes(model.limits.value)} of what shows ${bytes(row.size)}.` : bytes(row.size);
}

function write(place, words) {
  if (place.textContent !== words) place.textContent = words;
}

function press(event) {
  if (event.key === "Escape") {
    if (document.activeElement === at("filter") && at("filter").value) {
      at("filter").value = "";
      draw();
    } else value.close();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input")) return;
  if (event.key === "/" && !at("filter-label").hidden) {
    event.preventDefault();
    at("filter").focus();
  }
}

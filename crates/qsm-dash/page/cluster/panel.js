// What is known of one thing, and what the nodes of this host say of it.

import { node } from "./table.js";
import { explain } from "./stream.js";
import { tokenForm } from "./token.js";

const KINDS = { nodes: "node", here: "node", groups: "group", regions: "region" };
const AGAIN_MS = 3000;

export class Panel {
  // `facts(table, row)` gives pairs of words; `marked(explanation, name)` is told of explanations;
  // `tokenGiven` is called once there is a new token.
  constructor(place, { facts, marked, tokenGiven }) {
    this.place = place;
    this.facts = facts;
    this.marked = marked;
    this.tokenGiven = tokenGiven;
    this.shown = null;
    setInterval(() => this.again(), AGAIN_MS);
  }

  open(table, row) {
    this.before ??= document.activeElement;
    this.shown = { table, kind: KINDS[table], name: row.name, key: row.key };
    this.build(row);
    this.place.hidden = false;
    document.body.classList.add("with-panel");
    this.place.focus({ preventScroll: true });
    this.marked(null);
    this.ask();
  }

  // Asks for the token alone.
  openForToken() {
    this.before ??= document.activeElement;
    this.shown = { kind: null, name: "The token" };
    this.build(null);
    this.place.hidden = false;
    document.body.classList.add("with-panel");
    this.answer.replaceChildren(this.form("Nodes of this host are asked on behalf of whoever holds the token."));
    this.place.querySelector("input").focus();
  }

  close() {
    if (this.place.hidden) return;
    this.place.hidden = true;
    this.shown = null;
    document.body.classList.remove("with-panel");
    this.marked(null);
    if (this.before?.isConnected) this.before.focus({ preventScroll: true });
    this.before = null;
  }

  build(row) {
    const head = node("div", "panel-head");
    const title = node("h2");
    title.append(node("span", "kind", this.shown.kind ?? ""), node("bdi", "", this.shown.name));
    const close = node("button", "close", "Close");
    close.type = "button";
    close.addEventListener("click", () => this.close());
    head.append(title, close);
    this.trouble = node("div", "trouble");
    this.list = node("dl", "facts");
    this.answer = node("div", "answer");
    this.answer.setAttribute("aria-live", "polite");
    this.place.replaceChildren(head, this.trouble, this.list, this.answer);
    this.told = "";
    if (row) this.update(row);
  }

  // The row has changed; `undefined`: it is gone.
  update(row) {
    const facts = row ? this.facts(this.shown.table, row) : [];
    const wrong = row ? [row.health, row.trouble, row.remedy] : ["bad", "It is gone.", null];
    const told = JSON.stringify([facts, wrong]);
    if (told === this.told) return;
    this.told = told;
    const [health, trouble, remedy] = wrong;
    this.trouble.className = `trouble ${health}`;
    this.trouble.hidden = !trouble;
    this.trouble.replaceChildren(node("strong", "", trouble), node("span", "", remedy ?? ""));
    if (!row) return;
    this.list.replaceChildren(...facts.flatMap(([word, value]) => [node("dt", "", word), node("dd", "", value)]));
  }

  refresh(model) {
    if (this.shown?.table) this.update(model.tables[this.shown.table].rows.get(this.shown.key));
  }

  again() {
    if (this.shown?.explained && !document.hidden && !this.asking) this.ask();
  }

  async ask() {
    const { shown } = this;
    if (shown.kind === "region") return;
    if (!shown.explained) {
      const wait = shown.kind === "node" ? "watching it for two seconds …" : "asking the nodes of this host …";
      this.answer.replaceChildren(node("p", "waiting", wait));
    }
    this.asking = true;
    let answer;
    try {
      answer = await explain(shown.kind, shown.name);
    } catch {
      answer = { refused: 0, why: "no connection to `qsm dash`" };
    }
    this.asking = false;
    if (shown !== this.shown) return;
    if (answer.refused) this.refuse(answer, shown);
    else this.tell(answer, shown);
  }

  refuse({ refused, why }, shown) {
    shown.explained = refused === 503;
    if (refused === 401 || refused === 403) {
      this.answer.replaceChildren(this.form("What the nodes of this host say is for holders of the token."));
      return;
    }
    this.answer.replaceChildren(node("p", "refused", `Not explained here: ${why}.`));
    if (refused === 404 && shown.kind === "node") {
      const command = node("code", "", `qsm explain --node ${quoted(shown.name)}`);
      const hint = node("p", "refused", "On its host: ");
      hint.append(command);
      this.answer.append(hint);
    }
  }

  tell(explanation, shown) {
    const text = JSON.stringify(explanation);
    if (shown.text === text) return;
    shown.text = text;
    shown.explained = true;
    this.answer.replaceChildren(...explanation.sections.map(sectionOf));
    this.marked(explanation, shown.name);
  }

  form(why) {
    return tokenForm(why, () => {
      this.tokenGiven();
      if (this.shown?.kind) this.ask();
      else this.close();
    });
  }
}

// A word of a shell.
const quoted = (name) => (/^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

function sectionOf(section) {
  const [[kind, content]] = Object.entries(section);
  if (kind === "heading") return node("h3", "", content);
  if (kind === "finding") return node("p", "finding", content);
  if (kind === "table") return tableOf(content);
  return node("p", "", content);
}

function tableOf({ columns, numbers, rows }) {
  const table = node("table");
  const line = (cells, kind) => {
    const row = node("tr");
    row.append(...cells.map((cell, at) => node(kind, numbers[at] ? "number" : "", cell)));
    return row;
  };
  const [head, body] = [node("thead"), node("tbody")];
  head.append(line(columns, "th"));
  body.append(...rows.map((cells) => line(cells, "td")));
  table.append(head, body);
  const frame = node("div", "scroll");
  frame.append(table);
  return frame;
}

// A table of any length: only the lines that are seen exist, and cells change only where their text does.

import { rank } from "./words.js";

const LINE = 28;
// The headings stay on top of the lines.
const HEAD = 30;
const SPARE = 4;
const compare = new Intl.Collator("en", { numeric: true }).compare;

let tables = 0;

export class Table {
  // spec: { label, columns: [{ label, of(row), shown?(value), number, width }], load(row), empty, and if they are not
  // as usual: holds(row, words) for the filter, order(a, b), look(row) for a class, ordered, follows }
  constructor(spec, opened) {
    this.spec = spec;
    this.opened = opened;
    this.id = `table-${(tables += 1)}`;
    this.rows = [];
    this.lines = [];
    this.filter = "";
    this.order = null;
    this.selected = null;
    this.version = -1;
    this.build();
  }

  build() {
    const widths = this.spec.columns.map((column) => column.width ?? "minmax(6rem, 1fr)").join(" ");
    this.element = node("div", "grid");
    this.element.setAttribute("role", "grid");
    this.element.setAttribute("aria-label", this.spec.label);
    this.element.tabIndex = 0;
    this.element.style.setProperty("--columns", widths);
    const head = node("div", "grid-head");
    head.setAttribute("role", "row");
    this.heads = this.spec.columns.map((column, at) => {
      const cell = node("div", column.number ? "cell number" : "cell");
      cell.setAttribute("role", "columnheader");
      const button = node("button", "sort", column.label);
      button.type = "button";
      button.addEventListener("click", () => this.sortBy(at));
      cell.append(button);
      return cell;
    });
    head.append(...this.heads);
    this.body = node("div", "grid-body");
    // Scrolls with the keys of the table, and is no stop of its own.
    this.body.tabIndex = -1;
    this.space = node("div", "grid-space");
    this.space.setAttribute("role", "rowgroup");
    this.body.append(head, this.space);
    this.nothing = node("p", "empty", this.spec.empty);
    this.element.append(this.body, this.nothing);
    this.body.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  // Takes the rows of a version of the model.
  show(rows, version, filter) {
    if (version === this.version && filter === this.filter) return;
    this.version = version;
    this.filter = filter;
    const wanted = filter.toLowerCase();
    const holds = this.spec.holds ?? ((row, words) => row.name.toLowerCase().includes(words));
    this.rows = [...rows].filter((row) => holds(row, wanted));
    if (!this.spec.ordered) this.rows.sort((a, b) => this.compare(a, b));
    this.element.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.nothing.hidden = this.rows.length > 0;
    const { scrollTop, clientHeight, scrollHeight } = this.body;
    const atEnd = scrollTop + clientHeight >= scrollHeight - LINE;
    this.draw();
    if (this.spec.follows && atEnd) {
      this.body.scrollTop = this.body.scrollHeight;
      this.draw();
    }
  }

  compare(a, b) {
    if (this.order) {
      const { column, down } = this.order;
      const { of, number } = this.spec.columns[column];
      const [x, y] = [of(a), of(b)];
      const by = number ? (x ?? -1) - (y ?? -1) : compare(x ?? "", y ?? "");
      if (by) return down ? -by : by;
    }
    if (this.spec.order) return this.spec.order(a, b);
    return rank(a) - rank(b) || this.spec.load(b) - this.spec.load(a) || compare(a.name, b.name);
  }

  // By a column, the other way round, and then again by trouble.
  sortBy(at) {
    const first = Boolean(this.spec.columns[at].number);
    if (this.order?.column !== at) this.order = { column: at, down: first };
    else if (this.order.down === first) this.order = { column: at, down: !first };
    else this.order = null;
    this.heads.forEach((head, column) => {
      const sorted = this.order?.column === column;
      if (sorted) head.setAttribute("aria-sort", this.order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (!this.spec.ordered) this.rows.sort((a, b) => this.compare(a, b));
    this.draw();
  }

  draw() {
    setStyle(this.space, "height", `${this.rows.length * LINE}px`);
    const height = this.body.clientHeight;
    if (height === 0) return;
    const first = Math.max(0, Math.floor(this.body.scrollTop / LINE) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((this.body.scrollTop + height) / LINE) + SPARE);
    while (this.lines.length < last - first) this.addLine();
    let active = "";
    this.lines.forEach((line, at) => {
      const row = this.rows[first + at];
      const there = first + at < last;
      if (line.element.hidden === there) line.element.hidden = !there;
      if (!there) return;
      this.fill(line, row, first + at);
      if (row.key === this.selected) active = line.element.id;
    });
    if (active) this.element.setAttribute("aria-activedescendant", active);
    else this.element.removeAttribute("aria-activedescendant");
  }

  addLine() {
    const element = node("div", "grid-line");
    element.setAttribute("role", "row");
    element.id = `${this.id}-${this.lines.length}`;
    const cells = this.spec.columns.map((column) => {
      const cell = node("div", column.number ? "cell number" : "cell");
      cell.setAttribute("role", "gridcell");
      return cell;
    });
    element.append(...cells);
    this.space.append(element);
    this.lines.push({ element, cells, texts: [] });
  }

  fill(line, row, at) {
    setStyle(line.element, "transform", `translateY(${at * LINE}px)`);
    const marked = row.key === this.selected;
    const look = `grid-line ${row.health} ${this.spec.look?.(row) ?? ""}${marked ? " selected" : ""}`;
    if (line.look !== look) {
      line.element.className = line.look = look;
      line.element.setAttribute("aria-selected", String(marked));
    }
    if (line.at !== at) line.element.setAttribute("aria-rowindex", String((line.at = at) + 2));
    line.row = row;
    this.spec.columns.forEach((column, number) => {
      const value = column.of(row);
      const text = column.shown ? column.shown(value) : (value ?? "–");
      if (line.texts[number] === text) return;
      line.texts[number] = line.cells[number].textContent = text;
      if (!column.number) line.cells[number].title = text;
    });
  }

  click(event) {
    const line = this.lines.find(({ element }) => element.contains(event.target));
    if (!line || !line.row) return;
    this.select(line.row.key);
    this.opened(line.row);
  }

  select(key) {
    this.selected = key;
    this.draw();
  }

  press(event) {
    const page = Math.max(1, Math.floor((this.body.clientHeight - HEAD) / LINE) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target !== this.element && event.target !== this.body) return;
    const at = this.rows.findIndex((row) => row.key === this.selected);
    if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      this.opened(this.rows[at]);
    }
    if (!(event.key in steps) || this.rows.length === 0) return;
    event.preventDefault();
    const to = at < 0 && steps[event.key] === 1 ? 0 : at + steps[event.key];
    this.reveal(Math.min(this.rows.length - 1, Math.max(0, to)));
  }

  reveal(at) {
    const { scrollTop, clientHeight } = this.body;
    if (at * LINE < scrollTop) this.body.scrollTop = at * LINE;
    const end = HEAD + (at + 1) * LINE;
    if (end > scrollTop + clientHeight) this.body.scrollTop = end - clientHeight;
    this.select(this.rows[at].key);
  }
}

// An element with a class and a text. Texts may be anybody's: they are never more than text.
export function node(kind, look, text) {
  const element = document.createElement(kind);
  if (look) element.className = look;
  if (text != null) element.textContent = text;
  return element;
}

function setStyle(element, name, value) {
  if (element.style[name] !== value) element.style[name] = value;
}

// One value or message, whole as far as it is here.

import { node } from "./table.js";

export class Value {
  // `facts(row)` gives pairs of words, `size(row)` says how much of it is here.
  constructor(place, facts, size) {
    Object.assign(this, { place, facts, size, key: null });
  }

  open(row) {
    this.before ??= document.activeElement;
    this.key = row.key;
    this.build(row);
    this.place.hidden = false;
    document.body.classList.add("with-panel");
    this.place.focus({ preventScroll: true });
  }

  close() {
    if (this.place.hidden) return;
    this.place.hidden = true;
    this.key = null;
    document.body.classList.remove("with-panel");
    if (this.before?.isConnected) this.before.focus({ preventScroll: true });
    this.before = null;
  }

  // Follows its row.
  refresh(rows) {
    if (this.key === null) return;
    const row = rows.get(this.key);
    if (row === this.row) return;
    if (row) this.build(row);
    else if (!this.gone.textContent) this.gone.textContent = "It is gone.";
  }

  build(row) {
    this.row = row;
    const head = node("div", "panel-head");
    const title = node("h2");
    title.append(node("bdi", "", row.title));
    const close = node("button", "close", "Close");
    close.type = "button";
    close.addEventListener("click", () => this.close());
    head.append(title, close);
    this.gone = node("p", "waiting");
    const facts = node("dl", "facts");
    facts.append(...this.facts(row).flatMap(([word, value]) => [node("dt", "", word), node("dd", "", value)]));
    this.place.replaceChildren(head, this.gone, facts, node("pre", "value-text", row.text), node("p", "caption", this.size(row)));
  }
}

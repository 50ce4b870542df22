// What is known of an object: its rows and its text. Each row has the number of its last change, `at`.

const BRIEF = 300;

export class Model {
  constructor() {
    this.takeWhole({ object: null, cluster: "", group: "", begun: 0 });
  }

  // Everything that was known is gone; what follows replaces it.
  takeWhole(whole) {
    Object.assign(this, { object: whole.object, cluster: whole.cluster, group: whole.group, begun: whole.begun });
    this.limits = { rows: whole.rows_max, bytes: whole.bytes_max, value: whole.value_bytes_max };
    // In the order of their changes, by key or by number.
    this.rows = new Map();
    this.leftOut = 0;
    // Lines that came and were left out before this page read them.
    this.unread = 0;
    this.upto = 0;
    this.text = "";
    this.textSize = 0;
    this.textCut = false;
    this.told = false;
    // Part of the text that was written last, as units from its beginning.
    this.written = [0, 0];
    this.well = true;
    this.word = "";
    this.version = (this.version ?? 0) + 1;
  }

  takeChange(change, now) {
    if (change.rows) this.takeRows(change.rows, now);
    if (change.text) this.takeText(change.text, now);
    this.well = change.well;
    this.word = change.word;
  }

  takeRows({ set, removed, first, upto, left_out: leftOut }, now) {
    const lines = this.object !== "map";
    for (const key of removed) this.rows.delete(key);
    for (const given of set) {
      const key = lines ? String(given.at) : given.key;
      // Taken out before, so that it goes behind those that changed earlier.
      this.rows.delete(key);
      this.rows.set(key, rowOf(key, given, given.at > this.begun ? now : -Infinity));
    }
    // What had gone before this page began is not counted.
    const known = Math.max(this.upto, Math.min(first - 1, this.begun));
    if (lines) this.unread += upto - known - set.length;
    for (const [key, row] of this.rows) {
      if (row.at >= first) break;
      this.rows.delete(key);
    }
    this.upto = upto;
    this.leftOut = leftOut;
    this.version += 1;
  }

  takeText({ before, after, insert, size, cut }, now) {
    const end = this.text.length - after;
    this.text = this.text.slice(0, before) + insert + this.text.slice(end);
    this.written = [before, before + insert.length];
    this.changed = this.told ? now : -Infinity;
    this.told = true;
    this.textSize = size;
    this.textCut = cut;
    this.version += 1;
  }
}

function rowOf(key, given, changed) {
  const { text, remark } = given;
  const brief = text.length > BRIEF ? `${text.slice(0, BRIEF)} …` : text;
  const size = given.form === "missing" ? null : given.size;
  return { ...given, key, size, name: key, health: "good", brief, changed, seen: `${given.key ?? given.sender ?? ""}\n${text}\n${remark ?? ""}`.toLowerCase() };
}

export const byTime = (a, b) => a.time - b.time || a.at - b.at;
export const byKey = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

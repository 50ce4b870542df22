// What is known of the cluster: everything once, then what differs.

import { rank } from "./words.js";

export const EVENTS_MAX = 200;
export const POINTS_MAX = 300;

const TABLES = ["nodes", "groups", "regions", "here"];

export class Model {
  constructor() {
    this.tables = {};
    for (const name of TABLES) this.tables[name] = { total: 0, rows: new Map(), version: 0 };
    this.events = [];
    this.eventCount = 0;
    this.points = [];
    this.rights = "lists";
    this.seen = 0;
    this.absent = null;
    // When it was heard that the service had answered, by the browser's clock.
    this.heard = null;
  }

  takeWhole(whole) {
    this.rights = whole.rights;
    for (const name of TABLES) {
      const given = whole.tables[name] ?? { total: 0, rows: {} };
      const table = this.tables[name];
      table.total = given.total;
      table.rows = new Map(Object.entries(given.rows));
      for (const [key, row] of table.rows) row.key = key;
      table.version += 1;
    }
    this.events = [];
    this.addEvents(whole.events);
    this.points = whole.points.slice(-POINTS_MAX);
    this.takeSeen(whole);
  }

  takeChange(change) {
    for (const [name, difference] of Object.entries(change.tables)) {
      const table = this.tables[name];
      table.total = difference.total;
      for (const key of difference.gone) table.rows.delete(key);
      for (const [key, fields] of Object.entries(difference.set)) {
        const row = table.rows.get(key);
        if (row) Object.assign(row, fields);
        else table.rows.set(key, { ...fields, key });
      }
      table.version += 1;
    }
    this.addEvents(change.events);
    this.points.push(change.point);
    if (this.points.length > POINTS_MAX) this.points.splice(0, this.points.length - POINTS_MAX);
    this.takeSeen(change);
  }

  takeSeen(told) {
    this.absent = told.absent;
    if (told.seen !== this.seen) {
      this.seen = told.seen;
      this.heard = performance.now();
    }
  }

  addEvents(events) {
    for (const event of events) {
      this.eventCount += 1;
      this.events.unshift({ ...event, key: String(this.eventCount) });
    }
    this.events.length = Math.min(this.events.length, EVENTS_MAX);
  }

  // What is wrong, the worst first. Things with the same trouble are one entry.
  problems() {
    const found = new Map();
    for (const name of ["here", "nodes", "groups", "regions"]) {
      for (const row of this.tables[name].rows.values()) {
        if (row.health === "good" || !row.trouble) continue;
        // Members that are away are told as nodes.
        if (name === "regions" && row.health !== "bad") continue;
        const id = `${name} ${row.health} ${row.trouble}`;
        const problem = found.get(id);
        if (problem) problem.rows.push(row);
        else found.set(id, { table: name, health: row.health, trouble: row.trouble, remedy: row.remedy, rows: [row] });
      }
    }
    const problems = [...found.values()];
    return problems.sort((a, b) => rank(a) - rank(b) || b.rows.length - a.rows.length);
  }
}

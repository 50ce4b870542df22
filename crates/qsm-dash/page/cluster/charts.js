// Rates of the last five minutes.

import { node } from "./table.js";
import { rate, seconds } from "./words.js";

const HEIGHT = 118;
// A look that comes so much later than the one before is after a time in which nobody watched.
const GAP_MS = 35000;

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

const CHARTS = [
  {
    title: "Messages a second, all nodes",
    shown: rate,
    lines: [["sent", "sent", "--one"], ["received", "received", "--two"]],
  },
  {
    title: "Loss and repair a second, nodes of this host",
    shown: rate,
    here: true,
    lines: [["packets missing", "missing", "--one"], ["repaired", "repaired", "--two"], ["messages lost", "lost", "--bad"]],
  },
  {
    title: "99 % took at most, nodes of this host",
    shown: seconds,
    here: true,
    lines: [["a repair", "repair_p99", "--one"], ["until all have it", "stable_p99", "--two"]],
  },
];

export class Charts {
  constructor(place, wantToken) {
    this.charts = CHARTS.map((spec) => new Chart(place, spec, wantToken));
    const again = () => {
      for (const chart of this.charts) chart.restyle();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new ResizeObserver(() => this.charts.forEach((chart) => chart.resized())).observe(place);
  }

  draw(model) {
    for (const chart of this.charts) chart.draw(model);
  }
}

class Chart {
  constructor(place, spec, wantToken) {
    this.spec = spec;
    this.card = node("figure", "card chart");
    const head = node("figcaption");
    head.append(node("h2", "", spec.title));
    this.values = spec.lines.map(([label, , colour]) => {
      const item = node("span", `value ${colour.slice(2)}`);
      const number = node("b", "", "–");
      item.append(node("i", "swatch"), `${label} `, number);
      head.append(item);
      return number;
    });
    this.plot = node("div", "plot");
    this.locked = node("p", "locked");
    const button = node("button", "", "Give the token");
    button.type = "button";
    button.addEventListener("click", wantToken);
    this.locked.append("Nodes of this host are shown to holders of the token. ", button);
    this.card.append(head, this.plot, this.locked);
    place.append(this.card);
  }

  draw(model) {
    const locked = Boolean(this.spec.here) && model.rights !== "all";
    this.locked.hidden = !locked;
    this.plot.hidden = locked;
    this.data = dataOf(model.points, this.spec);
    if (locked) {
      this.say(null);
      return;
    }
    if (!this.uplot) this.restyle();
    else this.uplot.setData(this.data);
    this.say(this.uplot?.cursor.idx ?? null);
  }

  // Values at a time, or the newest.
  say(at) {
    this.spec.lines.forEach((_, number) => {
      const line = this.data[number + 1];
      const value = line[at ?? line.length - 1];
      const text = this.spec.shown(value);
      if (this.values[number].textContent !== text) this.values[number].textContent = text;
    });
  }

  resized() {
    const width = this.plot.clientWidth;
    if (this.uplot && width > 0 && width !== this.uplot.width) this.uplot.setSize({ width, height: HEIGHT });
  }

  restyle() {
    const width = this.plot.clientWidth;
    if (!this.data || width === 0) return;
    this.uplot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const { shown, lines } = this.spec;
    const options = {
      width,
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
      // Of nothing but zero the scale is one.
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [
        { ...axis, size: 22, space: 80, values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1000)) },
        { ...axis, size: 58, space: 26, values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : shown(tick))) },
      ],
      series: [{}, ...lines.map(([label, , name]) => ({ label, stroke: colour(name), width: 1.5, points: { show: false } }))],
    };
    this.uplot = new uPlot(options, this.data, this.plot);
  }
}

// Columns of a plot, with a hole where nobody has looked.
function dataOf(points, spec) {
  const columns = [[], ...spec.lines.map(() => [])];
  let before = null;
  for (const point of points) {
    if (before !== null && point.time - before > GAP_MS) {
      columns[0].push((before + 1) / 1000);
      for (const column of columns.slice(1)) column.push(null);
    }
    before = point.time;
    columns[0].push(point.time / 1000);
    spec.lines.forEach(([, field], at) => columns[at + 1].push(point[field] ?? null));
  }
  return columns;
}

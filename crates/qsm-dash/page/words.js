// Words of figures, and the order of what is well and what is not.

const RANK = { bad: 0, doubtful: 1, good: 2 };

export const rank = (row) => RANK[row.health] ?? 3;

const whole = new Intl.NumberFormat("en");
const NO = "–";

export const count = (number) => (number == null ? NO : whole.format(number));

// A rate in three digits, as `qsm top` has it.
export function rate(number) {
  if (number == null) return NO;
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return `${(number / size).toPrecision(3)} ${unit}`;
  }
  return number >= 100 || Number.isInteger(number) ? whole.format(Math.round(number)) : number.toPrecision(2);
}

export function seconds(time) {
  if (!time) return NO;
  if (time >= 1) return `${time.toPrecision(3)} s`;
  if (time >= 1e-3) return `${(time * 1e3).toPrecision(3)} ms`;
  return `${(time * 1e6).toPrecision(3)} µs`;
}

export const text = (value) => (value == null || value === "" ? NO : String(value));

// Draws the distribution of the samples of a measurement.

import { s } from "./dom.js";
import { micros } from "./format.js";

const WIDTH = 640, HEIGHT = 96, LEFT = 16, RIGHT = 16, AXIS = 68;

/** Draws each sample as a tick over time in microseconds, with the median and its 95% interval, if it has one. */
export function strip(name, { samples_ns: samples, median_ns: median, interval_ns: interval }) {
  // Modelled times, and those of fewer than three samples, have no interval.
  const range = interval && interval.lo !== null && interval.hi !== null ? interval : null;
  const known = [...samples, median, ...(range ? [range.lo, range.hi] : [])];
  const [lowest, highest] = [Math.min(...known), Math.max(...known)];
  const x = (ns) => LEFT + (highest > lowest ? ((ns - lowest) / (highest - lowest)) * (WIDTH - LEFT - RIGHT) : (WIDTH - LEFT - RIGHT) / 2);
  const label = `${name}: ${samples.length} samples from ${micros(lowest / 1e3)} to ${micros(highest / 1e3)}, median ${micros(median / 1e3)}`;
  const text = (at, y, anchor, content) => s("text", { x: at, y, "text-anchor": anchor, "font-size": 13, fill: "var(--muted)" }, content);
  return s("svg", { class: "strip", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    range && s("rect", { x: x(range.lo), y: 22, width: Math.max(1, x(range.hi) - x(range.lo)), height: 40, fill: "var(--ours)", opacity: 0.2 }),
    samples.map((ns) => s("line", { x1: x(ns), x2: x(ns), y1: 30, y2: 54, stroke: "var(--ours)", "stroke-width": 1.5, opacity: 0.6 })),
    s("line", { x1: x(median), x2: x(median), y1: 20, y2: 64, stroke: "var(--text)", "stroke-width": 2 }),
    s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: AXIS, y2: AXIS, stroke: "var(--line)" }),
    text(x(median), 14, x(median) > WIDTH - 100 ? "end" : x(median) < 100 ? "start" : "middle", `median ${micros(median / 1e3)}`),
    text(LEFT, HEIGHT - 8, "start", micros(lowest / 1e3)), text(WIDTH - RIGHT, HEIGHT - 8, "end", micros(highest / 1e3)));
}

// Draws how the best time of each case fell.

import { h, s } from "./dom.js";
import { duration, times } from "./format.js";

const WIDTH = 640, HEIGHT = 260, LEFT = 56, RIGHT = 12, TOP = 12, BOTTOM = 34;
const MOST = 8;
const COLOURS = ["var(--ours)", "var(--baseline)", "var(--bound)", "var(--fourth)", "var(--text)", "var(--muted)"];
const DASHES = [null, "6 3", "2 3"];

/**
 * Draws steps. `series` maps a name to points `[x, factor]`: how many times as fast as at the beginning. `end` is where x ends, and
 * `axis` writes an x.
 */
export function steps(label, series, end, axis = duration, begin = 0) {
  const shown = [...series].filter(([, points]) => points.length > 0).slice(0, MOST);
  if (shown.length === 0) return h("p", { class: "note" }, "There is nothing to draw yet.");
  const all = shown.flatMap(([, points]) => points.map(([, factor]) => Math.log(factor)));
  const [low, high] = [Math.min(0, ...all), Math.max(Math.log(1.05), ...all)];
  // All of it may have happened at one moment.
  const last = end > begin ? end : begin + 1;
  const x = (at) => LEFT + ((at - begin) / (last - begin)) * (WIDTH - LEFT - RIGHT);
  const y = (factor) => HEIGHT - BOTTOM - ((Math.log(factor) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const look = (place) => ({ stroke: COLOURS[place % COLOURS.length], "stroke-dasharray": DASHES[Math.floor(place / COLOURS.length) % DASHES.length] });
  const line = ([name, points], place) => {
    const path = points.map(([at, factor], step) => (step === 0 ? `M${x(at)} ${y(factor)}` : `H${x(at)}V${y(factor)}`)).join("") + `H${x(last)}`;
    return s("path", { d: path, fill: "none", "stroke-width": 2, ...look(place) }, s("title", null, name));
  };
  const text = (at, height, anchor, content) => s("text", { x: at, y: height, "text-anchor": anchor, "font-size": 13, fill: "var(--muted)" }, content);
  const grid = [low, (low + high) / 2, high].map(Math.exp).flatMap((factor) => [
    s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(factor), y2: y(factor), stroke: "var(--grid)" }), text(LEFT - 6, y(factor) + 4, "end", times(factor)),
  ]);
  const names = shown.map(([name, points], place) => h("li", null,
    s("svg", { class: "key", viewBox: "0 0 24 8", "aria-hidden": "true" }, s("line", { x1: 0, x2: 24, y1: 4, y2: 4, "stroke-width": 3, ...look(place) })),
    ` ${name}: ${times(points.at(-1)[1])}`));
  return h("figure", null, h("figcaption", null, label),
    s("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, grid, shown.map(line),
      text(LEFT, HEIGHT - 10, "start", axis(begin)), text(WIDTH - RIGHT, HEIGHT - 10, "end", axis(last))),
    h("ul", { class: "legend" }, names), series.size > shown.length ? h("p", { class: "note" }, `and ${series.size - shown.length} more`) : "");
}

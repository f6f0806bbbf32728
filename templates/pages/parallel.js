// Draws the configurations of a family on a case: a line for each, through its parameters to its time.

import { choice, h, s } from "./dom.js";
import { micros, times } from "./format.js";

const WIDTH = 760, HEIGHT = 300, SIDE = 48, TOP = 30, BOTTOM = 14;
// Fewer configurations, or values, show nothing.
const LEAST = 4;
// The configurations that stand out: those within 5% of the best.
const NEAR = 1.05;

/** Returns the timed rows of each family on each case that has enough of them, the longest list first. */
function groups(rows) {
  const found = new Map();
  for (const row of rows.filter((row) => row.best_ns && row.case)) {
    const name = `${row.family} on ${row.case}`;
    const group = found.get(name) ?? found.set(name, new Map()).get(name);
    // A configuration that was timed again counts with its best time.
    const before = group.get(row.hash);
    if (!before || row.best_ns < before.best_ns) group.set(row.hash, row);
  }
  return [...found].map(([name, group]) => [name, [...group.values()]]).filter(([, group]) => group.length >= LEAST && axes(group).length > 0)
    .toSorted(([, a], [, b]) => b.length - a.length);
}

/** Returns the parameters that differ, each with its values in order. */
function axes(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.params)))];
  const values = (name) => [...new Set(rows.map((row) => row.params[name]))].toSorted((a, b) => a - b);
  return names.map((name) => [name, values(name)]).filter(([, values]) => values.length > 1);
}

function drawn(name, rows) {
  const [best, worst] = [Math.min(...rows.map((row) => row.best_ns)), Math.max(...rows.map((row) => row.best_ns))];
  const all = axes(rows);
  const x = (place) => SIDE + (place / all.length) * (WIDTH - 2 * SIDE);
  const height = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const share = (values, value) => values.indexOf(value) / (values.length - 1);
  // Fast is at the top.
  const speed = (time) => (worst > best ? Math.log(worst / time) / Math.log(worst / best) : 1);
  const line = (row) => {
    const isNear = row.best_ns <= best * NEAR;
    const points = [...all.map(([name, values], place) => `${x(place)},${height(share(values, row.params[name]))}`), `${x(all.length)},${height(speed(row.best_ns))}`];
    return s("polyline", { points: points.join(" "), fill: "none", stroke: isNear ? "var(--ours)" : "var(--muted)", "stroke-width": isNear ? 2 : 1, "stroke-opacity": isNear ? 0.9 : 0.3 },
      s("title", null, `${Object.entries(row.params).map(([name, value]) => `${name}=${value}`).join(" ")}: ${micros(row.best_ns / 1e3)}`));
  };
  const text = (at, y, content, anchor = "middle") => s("text", { x: at, y, "text-anchor": anchor, "font-size": 12, fill: "var(--muted)" }, content);
  const axis = (title, place, marks) => [
    s("line", { x1: x(place), x2: x(place), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--line)" }), text(x(place), 14, title),
    ...marks.map(([content, share]) => text(x(place) + 5, height(share) + 4, content, "start")),
  ];
  const parameters = all.map(([name, values], place) => axis(name, place, values.map((value) => [String(value), share(values, value)])));
  const slow = rows.toSorted((a, b) => b.best_ns - a.best_ns);
  const label = `${rows.length} configurations of ${name}`;
  return h("figure", null,
    h("figcaption", null, `${label}: thick lines take at most ${times(NEAR)} the best time.`),
    s("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, slow.map(line), parameters,
      axis("time", all.length, [[micros(best / 1e3), 1], [micros(worst / 1e3), 0]])));
}

/** Draws one family on one case, and a choice of the others. Returns a note where nothing can be compared. */
export function parallel(rows) {
  const found = groups(rows);
  if (found.length === 0) return [h("p", { class: "note" }, `No family has ${LEAST} configurations with times on one case.`)];
  const place = h("div", null, drawn(...found[0]));
  const chosen = (event) => place.replaceChildren(drawn(...found[event.target.selectedIndex]));
  const select = choice("group", found.map(([name]) => [name, name]));
  select.addEventListener("change", chosen);
  return [h("div", { class: "actions" }, h("label", null, "Family and case ", select)), place];
}

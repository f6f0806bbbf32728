// Compares two sessions, or two iterations on a case.

import { get } from "./api.js";
import { difference } from "./code.js";
import { address, choice, field, h, table, tiles } from "./dom.js";
import { interval, micros, parameters, percent, range } from "./format.js";

const ratio = (found) => found && interval(found.estimate, [found.lo, found.hi]);
const paired = (found) => found && (found.paired ? "in one run" : "in two runs");

function sessions({ a, b, setup, cases, mean_ratio: mean }) {
  const variant = (one) => one && `${one.family} ${parameters(one.params)}`;
  return [
    tiles([[`session ${a.id}`, a.workload], [`session ${b.id}`, b.workload], [`mean of ${a.id} / ${b.id}`, mean && interval(mean).replace(" (no interval)", "")]]),
    h("h2", null, "What differs"),
    table("What differs", [{ title: "setting", cell: (row) => row.what }, { title: `session ${a.id}`, cell: (row) => row.a }, { title: `session ${b.id}`, cell: (row) => row.b }], setup, "Nothing."),
    h("h2", null, "Cases"),
    table("Cases", [
      { title: "case", cell: (row) => row.case }, { title: `session ${a.id}`, cell: (row) => micros(row.a_us), figures: true },
      { title: `session ${b.id}`, cell: (row) => micros(row.b_us), figures: true }, { title: `${a.id} / ${b.id}`, cell: (row) => ratio(row.ratio), figures: true },
      { title: "measured", cell: (row) => paired(row.ratio) }, { title: "verdict", cell: (row) => row.verdict ?? row.why_not },
      { title: `variant of ${a.id}`, cell: (row) => variant(row.a_variant) }, { title: `variant of ${b.id}`, cell: (row) => variant(row.b_variant) },
    ], cases),
  ];
}

function iterations({ conditions, a, b, ratio: found, noise }, diff) {
  return [
    h("p", null, `${conditions.workload}/${conditions.case} on ${conditions.device}; times are ${conditions.time_source}.`),
    table("Times", [
      { title: "variant", cell: (row) => row.name }, { title: "median", cell: (row) => micros(row.us), figures: true },
      { title: "95% interval", cell: (row) => range(row.ci_us), figures: true }, { title: "samples", cell: (row) => row.samples, figures: true },
    ], [a, b]),
    h("p", null, `The first takes ${ratio(found)} the time of the second, measured ${paired(found)}.`, noise ? ` The noise is ${percent(noise)}.` : ""),
    h("h2", null, "Difference of the sources"), diff ? difference(diff) : h("p", { class: "note" }, "The sources are equal."),
  ];
}

export async function compare([project], query, signal) {
  const value = (name) => query.get(name) ?? "";
  const [what, a, b, name] = [value("what") || "sessions", value("a"), value("b"), value("case")];
  const submit = (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(["what", "a", "b", "case"].map((key) => [key, event.target.elements[key].value.trim()]));
    location.hash = address(["projects", project, "compare"], asked);
  };
  const number = (key, given) => h("input", { name: key, value: given, inputmode: "numeric", pattern: "[0-9]+", required: true, autocomplete: "off" });
  const form = h("form", { submit }, h("div", { class: "fields" },
    field("Compare", choice("what", [["sessions", "sessions"], ["iterations", "iterations"]], what)), field("First", number("a", a)), field("Second", number("b", b)),
    field("Case, for iterations", h("input", { name: "case", value: name, autocomplete: "off" }))), h("div", { class: "actions" }, h("button", { type: "submit" }, "Compare")));
  const found = [];
  if (a && b) {
    try {
      const both = await get(address(["projects", project, "compare"], { what, a, b, case: what === "iterations" ? name : "" }), signal);
      if (what === "sessions") found.push(sessions(both));
      else found.push(iterations(both, (await get(address(["projects", project, "iterations", b, "diff"], { against: a }), signal)).diff));
    } catch (error) {
      if (!error.status || error.status === 401) throw error;
      found.push(h("p", { class: "error", role: "alert" }, error.message));
    }
  }
  return { title: `Compare in ${project}`, elements: [form, ...found] };
}

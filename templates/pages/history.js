// Searches all iterations of a project: filters, order, pages, export.

import { get, save } from "./api.js";
import { address, choice, field, h, link, table } from "./dom.js";
import { brief, interval, micros, parameters } from "./format.js";
import { pager } from "./sessions.js";
import { ticks } from "./ticks.js";

const ROWS = 50;
const EXPORTED_AT_ONCE = 1000;
const MOST_EXPORTED = 100000;
const FILTERS = ["case", "family", "verdict", "outcome", "origin", "proposer", "since"];
const VERDICTS = ["start", "improved", "tied", "regressed", "rejected"];
const OUTCOMES = ["measured", "rejected_by_compiler", "wrong", "crashed", "timed_out", "cheated", "out_of_memory", "not_modelled", "pruned"];
const EXPORTED = ["iteration", "session", "case", "family", "origin", "outcome", "verdict", "best_ns", "time_source", "speedup", "claim", "score", "cost_usd", "commit", "hash"];

/** Writes a cell of CSV. A leading sign of a formula is quoted, because spreadsheets run it. */
function cell(value) {
  const plain = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Orders rows by the value of a parameter. */
function ordered(rows, name, reverse) {
  const value = (row) => row.params?.[name] ?? Infinity;
  return rows.toSorted((a, b) => (reverse ? value(b) - value(a) : value(a) - value(b)));
}

export async function history([project], query, signal) {
  const value = (name) => query.get(name) ?? "";
  const [session, sort, reverse, offset] = [value("session"), value("sort"), value("reverse"), Number(value("offset"))];
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, value(name)]));
  const below = session ? ["projects", project, "sessions", session, "iterations"] : ["projects", project, "iterations"];
  const read = (from, limit) => get(address(below, { ...chosen, sort, reverse, offset: from || "", limit }), signal);
  const here = (more) => address(["projects", project, "history"], { session, ...chosen, sort, reverse, by: value("by"), ...more });
  // The parameters of one family are columns, and its rows are ordered here.
  const by = chosen.family ? value("by") : "";
  const rows = by ? ordered(await read(0, EXPORTED_AT_ONCE), by, reverse) : await read(offset, ROWS);

  // A second click on a title reverses the order.
  const sorted = (key, title) => {
    const isChosen = sort === key || (!sort && key === "number");
    const click = () => { location.hash = here({ sort: key, by: "", reverse: isChosen && !reverse ? "true" : "", offset: "" }); };
    return h("button", { type: "button", click, "aria-pressed": String(isChosen) }, `${title}${isChosen ? (reverse ? " ▴" : " ▾") : ""}`);
  };
  const byParameter = (name) => {
    const click = () => { location.hash = here({ by: name, reverse: by === name && !reverse ? "true" : "", offset: "" }); };
    return h("button", { type: "button", click, "aria-pressed": String(by === name) }, `${name}${by === name ? (reverse ? " ▾" : " ▴") : ""}`);
  };
  const names = chosen.family ? [...new Set(rows.flatMap((row) => Object.keys(row.params ?? {})))] : [];
  const given = names.map((name) => ({ title: byParameter(name), cell: (row) => row.params?.[name], figures: true }));
  const both = ticks(project, (row) => `iteration ${row.iteration} on ${row.case}`, (a, b) => ({ what: "iterations", a: String(a.iteration), b: String(b.iteration), case: a.case }));
  const columns = [
    both.column,
    { title: sorted("number", "iteration"), cell: (row) => link(address(["projects", project, "iterations", String(row.iteration)]), `#${row.iteration}`) },
    { title: "session", cell: (row) => row.session, figures: true },
    { title: "case", cell: (row) => row.case },
    { title: "verdict", cell: (row) => ((row.verdict ?? row.outcome)?.replaceAll("_", " ") ?? "unfinished") },
    { title: sorted("time", "time"), cell: (row) => micros(row.best_ns && row.best_ns / 1e3), figures: true },
    { title: sorted("speedup", "over the incumbent"), cell: (row) => interval(row.speedup, row.speedup_ci), figures: true },
    { title: "family", cell: (row) => row.family },
    { title: "from", cell: (row) => row.origin.replaceAll("_", " ") },
    ...(given.length ? given : [{ title: "parameters", cell: (row) => parameters(row.params) }]),
    { title: "message or claim", cell: (row) => brief(row.message ?? row.claim), prose: true },
  ];
  const input = (name) => h("input", { name, value: chosen[name], autocomplete: "off", spellcheck: "false" });
  const options = (names) => [["", "all"], ...names.map((name) => [name, name.replaceAll("_", " ")])];
  const submit = (event) => {
    event.preventDefault();
    const asked = Object.fromEntries([...FILTERS, "session"].map((name) => [name, event.target.elements[name].value.trim()]));
    location.hash = address(["projects", project, "history"], { ...asked, sort, reverse });
  };
  const status = h("span", { role: "status" });
  const everything = async () => {
    const all = [];
    while (all.length < MOST_EXPORTED) {
      const more = await read(all.length, EXPORTED_AT_ONCE);
      all.push(...more);
      status.replaceChildren(`${all.length} rows`);
      if (more.length < EXPORTED_AT_ONCE) break;
    }
    return all;
  };
  const csv = async () => save(`${project}.csv`, [EXPORTED.join(","), ...(await everything()).map((row) => EXPORTED.map((key) => cell(row[key])).join(","))].join("\r\n"), "text/csv");
  const json = async () => save(`${project}.json`, JSON.stringify(await everything()), "application/json");
  return {
    title: session ? `Iterations of session ${session}` : `History of ${project}`,
    elements: [
      h("form", { submit, role: "search", "aria-label": "Filter iterations" }, h("div", { class: "fields" },
        field("Session", h("input", { name: "session", value: session, inputmode: "numeric", autocomplete: "off" })), field("Case", input("case")), field("Family", input("family")),
        field("Verdict", choice("verdict", options(VERDICTS), chosen.verdict)), field("Outcome", choice("outcome", options(OUTCOMES), chosen.outcome)),
        field("Origin", input("origin")), field("Proposer", input("proposer")), field("Since", input("since"))),
      h("div", { class: "actions" }, h("button", { type: "submit" }, "Search"), h("button", { type: "button", click: csv }, "Export as CSV"),
        h("button", { type: "button", click: json }, "Export as JSON"), status)),
      h("div", { class: "dense" }, table("Iterations", columns, rows, "No iteration matches.")), rows.length > 1 && both.button, !by && pager(offset, rows, ROWS, (to) => here({ offset: to || "" })),
    ],
  };
}

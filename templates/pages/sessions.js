// The projects of a service, and the sessions of one.

import { get } from "./api.js";
import { address, choice, field, h, link, table } from "./dom.js";
import { dollars, duration, instant, interval } from "./format.js";
import { ticks } from "./ticks.js";

const ROWS = 50;
const STATUSES = ["running", "finished", "interrupted", "failed", "killed"];

export async function projects(parts, query, signal) {
  const rows = await get("/projects", signal);
  const columns = [
    { title: "project", cell: (row) => link(address(["projects", row.name, "sessions"]), row.name) },
    { title: "history", cell: (row) => link(address(["projects", row.name, "history"]), `search ${row.name}`) },
    { title: "workloads", cell: (row) => row.problem ?? row.workloads.join(", ") },
    { title: "folder", cell: (row) => row.folder },
  ];
  return { title: "Projects", elements: [table("Projects", columns, rows)] };
}

/** Makes links to the rows before and after these. `moved` returns the view at another offset. */
export function pager(offset, rows, perPage, moved) {
  return h("p", { class: "actions" },
    offset > 0 && link(moved(Math.max(0, offset - perPage)), "Previous page"),
    rows.length > 0 && h("span", { class: "note" }, `rows ${offset + 1} to ${offset + rows.length}`),
    rows.length === perPage && link(moved(offset + perPage), "Next page"));
}

export async function sessions([project], query, signal) {
  const [status, workload, offset] = [query.get("status") ?? "", query.get("workload") ?? "", Number(query.get("offset") ?? 0)];
  const asked = address(["projects", project, "sessions"], { status, workload, offset: offset || "", limit: ROWS });
  const [rows, all] = await Promise.all([get(asked, signal), get("/projects", signal)]);
  const here = (more) => address(["projects", project, "sessions"], { status, workload, ...more });
  const both = ticks(project, (row) => `session ${row.id}`, (a, b) => ({ what: "sessions", a: String(a.id), b: String(b.id) }));
  const columns = [
    both.column,
    { title: "session", cell: (row) => link(address(["projects", project, "sessions", String(row.id)]), `session ${row.id}`) },
    { title: "workload", cell: (row) => row.workload },
    { title: "status", cell: (row) => row.status },
    { title: "best gain", cell: (row) => interval(row.best_speedup, row.best_speedup_ci), figures: true },
    { title: "wins", cell: (row) => row.wins, figures: true },
    { title: "iterations", cell: (row) => row.iterations, figures: true },
    { title: "took", cell: (row) => duration(row.wall_s), figures: true },
    { title: "cost", cell: (row) => dollars(row.cost.gpu_usd + row.cost.llm_usd), figures: true },
    { title: "times", cell: (row) => row.time_source },
    { title: "device", cell: (row) => row.device },
    { title: "started", cell: (row) => instant(row.started_at) },
  ];
  const names = all.find(({ name }) => name === project)?.workloads ?? [];
  const submit = (event) => {
    event.preventDefault();
    const value = (name) => event.target.elements[name].value;
    location.hash = address(["projects", project, "sessions"], { status: value("status"), workload: value("workload") });
  };
  const filter = h("form", { submit }, h("div", { class: "fields" },
    field("Status", choice("status", [["", "all"], ...STATUSES.map((one) => [one, one])], status)),
    field("Workload", choice("workload", [["", "all"], ...names.map((one) => [one, one])], workload))),
    h("div", { class: "actions" }, h("button", { type: "submit" }, "Filter")));
  return {
    title: `Sessions of ${project}`,
    elements: [
      h("p", null, link(address(["projects", project, "history"]), "Search all iterations"), ", or ", link(address(["projects", project, "compare"]), "compare two sessions or iterations"), ", or see the ", link(address(["projects", project, "progress"]), "best of all sessions"), "."),
      filter, table("Sessions, the latest first", columns, rows), rows.length > 1 && both.button, pager(offset, rows, ROWS, (to) => here({ offset: to || "" })),
    ],
  };
}

// The best time of each case over all sessions of a project.

import { get } from "./api.js";
import { address, h, link, table } from "./dom.js";
import { micros, times } from "./format.js";
import { steps } from "./plot.js";

const SESSIONS = 1000;
const ROWS = 1000;

/** Groups the winning times by what may be compared: workload, device, source of the times, and case. */
function standings(rows, sessions) {
  const groups = new Map();
  for (const row of rows) {
    const session = sessions.get(row.session);
    if (!session || !row.case || !row.best_ns) continue;
    const key = [session.workload, session.device, row.time_source].join(" · ");
    if (!groups.has(key)) groups.set(key, new Map());
    const cases = groups.get(key);
    if (!cases.has(row.case)) cases.set(row.case, []);
    cases.get(row.case).push({ ...row, at: Date.parse(session.started_at) });
  }
  return groups;
}

/** Keeps what was faster than everything before. */
function records(rows) {
  const best = [];
  for (const row of rows.toSorted((a, b) => a.at - b.at || a.iteration - b.iteration)) {
    if (best.length === 0 || row.best_ns < best.at(-1).best_ns) best.push(row);
  }
  return best;
}

export async function progress([project], query, signal) {
  const all = (verdict) => get(address(["projects", project, "iterations"], { verdict, reverse: "true", limit: ROWS }), signal);
  const [starts, wins, listed] = await Promise.all([all("start"), all("improved"), get(address(["projects", project, "sessions"], { limit: SESSIONS }), signal)]);
  const sessions = new Map(listed.map((session) => [session.id, session]));
  const groups = standings([...starts, ...wins], sessions);
  const date = (at) => new Date(at).toLocaleDateString();
  const shown = [...groups].map(([key, cases]) => {
    const found = [...cases].map(([name, rows]) => [name, records(rows)]);
    const begin = Math.min(...found.map(([, rows]) => rows[0].at));
    const end = Math.max(...listed.map((session) => Date.parse(session.started_at)));
    const series = new Map(found.map(([name, rows]) => [name, rows.map((row) => [row.at, rows[0].best_ns / row.best_ns])]));
    const columns = [
      { title: "case", cell: (row) => row.name }, { title: "first", cell: (row) => micros(row.first.best_ns / 1e3), figures: true },
      { title: "best", cell: (row) => micros(row.best.best_ns / 1e3), figures: true }, { title: "gain", cell: (row) => times(row.first.best_ns / row.best.best_ns), figures: true },
      { title: "by", cell: (row) => [link(address(["projects", project, "iterations", String(row.best.iteration)]), `#${row.best.iteration}`), `, session ${row.best.session}`] },
      { title: "family", cell: (row) => row.best.family },
    ];
    return [h("h2", null, key), steps("How many times as fast as the first variant, by the start of the session", series, end, date, begin),
      table(`Best of ${key}`, columns, found.map(([name, rows]) => ({ name, first: rows[0], best: rows.at(-1) })))];
  });
  return { title: `Progress of ${project}`, elements: shown.length ? shown : [h("p", { class: "note" }, "No variant has won yet.")] };
}

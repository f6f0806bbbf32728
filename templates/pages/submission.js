// One submission: its session as it runs.

import { follow, get, post } from "./api.js";
import { address, h, link, table, tiles } from "./dom.js";
import { brief, dollars, duration, interval, micros } from "./format.js";
import { steps } from "./plot.js";
import { limits } from "./queue.js";

const LATEST = 25;
const TICK_MS = 500;

const CASES = [
  { title: "case", cell: (row) => row.case },
  { title: "began with", cell: (row) => micros(row.before_us ?? row.initial_us), figures: true },
  { title: "now", cell: (row) => micros(row.now_us), figures: true },
  { title: "gain", cell: (row) => interval(row.gain, row.gain_ci), figures: true },
  { title: "baseline", cell: (row) => row.baseline },
  { title: "baseline / ours", cell: (row) => interval(row.over_baseline, row.over_baseline_ci), figures: true },
  { title: "result", cell: (row) => row.result },
];

/** What the events have told so far. */
function blank() {
  return {
    session: null, project: null, budgetS: null, maxCost: null, maxIterations: null, elapsedS: 0, costUsd: 0, finished: 0,
    cases: new Map(), best: new Map(), latest: [], notes: [], working: null, at: performance.now(), ended: null, source: null,
  };
}

/** Notes how many times as fast as the first variant the best one of a case is. */
function note(state, { case: name, initial_us: initial, now_us: now }) {
  if (!initial || !now) return;
  if (!state.best.has(name)) state.best.set(name, []);
  state.best.get(name).push([state.elapsedS, initial / now]);
}

/** Takes an event in. */
function apply(state, event) {
  state.at = performance.now();
  state.working = null;
  switch (event.event) {
    case "started": case "resumed":
      Object.assign(state, { session: event.session, budgetS: event.budget_s, maxCost: event.max_cost_usd });
      Object.assign(state, { maxIterations: event.max_iterations, source: event.time_source, ended: null });
      break;
    case "iteration":
      Object.assign(state, { elapsedS: event.elapsed_s, costUsd: event.cost_usd, finished: event.finished });
      state.latest = [event, ...state.latest].slice(0, LATEST);
      break;
    case "case": state.cases.set(event.case, event); note(state, event); break;
    case "working": state.working = event; break;
    case "no_baseline": case "no_counters": case "models_stopped": state.notes.push(event.reason); break;
    case "backend_left_out": state.notes.push(`${event.backend} is not timed: ${event.reason}`); break;
    case "disqualified": state.notes.push(`#${event.iteration} is disqualified on ${event.case}: ${event.reason}`); break;
    case "committed": state.notes.push(`committed ${event.commit.slice(0, 10)} to ${event.branch}: ${event.cases.join(", ")}`); break;
    case "not_committed": state.notes.push(`not committed (${event.cases.join(", ")}): ${event.reason}`); break;
    case "ended":
      Object.assign(state, { ended: event, elapsedS: event.wall_s, costUsd: event.cost_usd, finished: event.iterations });
      break;
  }
}

const verdict = ({ outcome, decisions }) =>
  outcome.kind === "measured"
    ? decisions.map(({ case: name, verdict, speedup }) => `${name} ${verdict.replaceAll("_", " ")}${speedup ? ` ${interval(speedup).replace(" (no interval)", "")}` : ""}`).join(", ")
    : [outcome.kind.replaceAll("_", " "), outcome.message].filter(Boolean).join(": ");

export async function submission([id], query, signal) {
  let row = await get(`/submissions/${id}`, signal);
  const state = blank();
  const connection = h("p", { class: "note", role: "status", id: "connection" }, "connecting");
  const [head, buttons, standing, running, cases, best, latest, notes] = Array.from({ length: 8 }, () => h("div"));
  const refusal = h("div", { role: "alert" });

  const act = async (verb) => {
    try {
      row = await post(`/submissions/${id}/${verb}`);
      refusal.replaceChildren();
      if (verb === "resume") listen();
      draw();
    } catch (error) {
      refusal.replaceChildren(h("p", { class: "error" }, error.message));
    }
  };
  const button = (verb, text) => h("button", { type: "button", click: () => act(verb) }, text);

  let drawnButtons = null;
  function draw() {
    const project = row.project_name;
    const over = !["queued", "running"].includes(row.state);
    head.replaceChildren(tiles([
      ["state", row.state], ["time", [duration(state.elapsedS), state.budgetS ? ` of ${duration(state.budgetS)}` : ""]],
      ["cost", [dollars(state.costUsd), state.maxCost ? ` of ${dollars(state.maxCost)}` : ""]],
      ["iterations", [String(state.finished), state.maxIterations ? ` of ${state.maxIterations}` : ""]], ["cases improved", String([...state.cases.values()].filter(({ result }) => result === "improved").length)],
    ]));
    if (drawnButtons !== row.state) {
      drawnButtons = row.state;
      buttons.replaceChildren(h("div", { class: "actions" },
        row.state === "running" && button("stop", "Stop after this iteration"), !over && button("cancel", row.state === "queued" ? "Drop" : "End now"),
        over && button("resume", "Resume")));
    }
    // What is used up first ends the session.
    const used = Math.max(0, ...[[state.elapsedS, state.budgetS], [state.costUsd, state.maxCost], [state.finished, state.maxIterations]]
      .map(([spent, limit]) => (limit ? Math.min(1, spent / limit) : 0)));
    standing.replaceChildren(
      h("p", null, `${row.request.workload ?? "the project's workload"} on ${row.lane ?? row.device}, until ${limits(row.request)}. `,
        row.ahead ? `${row.ahead} start before it. ` : "", row.reason ? `Reason: ${row.reason}. ` : "",
        state.session && project ? link(address(["projects", project, "sessions", String(state.session)]), `Session ${state.session} on record`) : ""),
      h("progress", { value: used, max: 1, "aria-label": "share of the budget that is used" }));
    cases.replaceChildren(h("h2", null, "Best variant of each case"),
      state.source ? h("p", { class: "note" }, `Times are ${state.source}. Ratios above 1 mean that ours is faster, with 95% intervals.`) : "",
      table("Best variant of each case", CASES, [...state.cases.values()], "No case has been measured yet."));
    best.replaceChildren(h("h2", null, "Best over time"), steps("How many times as fast as the first variant", state.best, Math.max(state.elapsedS, 1)));
    const number = (one) => (project ? link(address(["projects", project, "iterations", String(one.iteration)]), `#${one.iteration}`) : `#${one.iteration}`);
    latest.replaceChildren(h("h2", null, "Latest iterations"),
      table("Latest iterations", [
        { title: "iteration", cell: number }, { title: "verdicts", cell: verdict }, { title: "hypothesis", cell: (one) => brief(one.hypothesis.claim), prose: true },
      ], state.latest, "No iteration has ended yet."));
    notes.replaceChildren(state.notes.length ? h("section", null, h("h2", null, "Notes"), h("ul", null, state.notes.map((note) => h("li", null, note)))) : "");
  }

  function tick() {
    if (row.state !== "running" || state.ended) return running.replaceChildren();
    const since = (performance.now() - state.at) / 1000;
    const now = state.working ? `${state.working.steps.join(", ")} for ${duration(state.working.for_s + since)}` : `iteration ${state.finished + 1} for ${duration(since)}`;
    return running.replaceChildren(h("p", null, `Runs now: ${now}.`));
  }

  let isDrawn = true;
  function later() {
    if (!isDrawn) return;
    isDrawn = false;
    requestAnimationFrame(() => {
      isDrawn = true;
      if (!signal.aborted && !latest.contains(document.activeElement)) draw();
    });
  }

  function listen() {
    follow(id, {
      connected: () => connection.replaceChildren("live"),
      disconnected: () => connection.replaceChildren("disconnected: trying again"),
      event: (type, data) => {
        if (type === "message") apply(state, data);
        else row = { ...row, ...data };
        later();
      },
    }, signal).then(() => !signal.aborted && connection.replaceChildren("ended"), (error) => connection.replaceChildren(error.message));
  }
  draw();
  listen();
  const timer = setInterval(tick, TICK_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return { title: `Submission #${id}`, elements: [connection, head, standing, running, buttons, refusal, cases, best, latest, notes] };
}

// The queue: what waits, runs and has ended, and a form to submit a session.

import { get, post } from "./api.js";
import { choice, field, h, link, table } from "./dom.js";
import { dollars, instant } from "./format.js";
import { live } from "./live.js";

const ROWS = 50;

const COLUMNS = [
  { title: "number", cell: (row) => link(`/submissions/${row.id}`, `#${row.id}`) },
  { title: "state", cell: (row) => row.state },
  { title: "project", cell: (row) => row.project_name ?? row.project },
  { title: "workload", cell: (row) => row.request.workload ?? "the project's" },
  { title: "device", cell: (row) => row.lane ?? row.device },
  { title: "priority", cell: (row) => row.priority, figures: true },
  { title: "budget", cell: (row) => limits(row.request) },
  { title: "iterations", cell: (row) => row.iterations, figures: true },
  { title: "reason", cell: (row) => row.reason },
  { title: "submitted", cell: (row) => instant(row.submitted_at) },
];

/** Says what ends a session. */
export function limits(request) {
  const given = [request.budget, dollars(request.max_cost_usd), request.max_iterations && `${request.max_iterations} iterations`];
  return given.filter(Boolean).join(", ") || "the project's";
}

export async function queue(parts, query, signal) {
  const [projects, rows] = await Promise.all([get("/projects", signal), get(`/submissions?limit=${ROWS}`, signal)]);
  const list = live(rows, () => get(`/submissions?limit=${ROWS}`, signal), listed, signal);
  return { title: "Queue", elements: [list, form(projects)] };
}

const listed = (rows) => table("Submissions, the latest first", COLUMNS, rows, "Nothing has been submitted yet.");

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

function form(projects) {
  // A second click, or a repetition after a lost answer, submits the same session.
  let key = newKey();
  const project = choice("project", projects.map(({ name }) => [name, name]));
  const workload = h("select", { name: "workload" });
  const offer = () => {
    const names = projects.find(({ name }) => name === project.value)?.workloads ?? [];
    workload.replaceChildren(...[["", "the project's"], ...names.map((name) => [name, name])].map(([value, text]) => h("option", { value }, text)));
  };
  project.addEventListener("change", offer);
  offer();
  const input = (name, placeholder) => h("input", { name, placeholder, autocomplete: "off", spellcheck: "false" });
  const answer = h("div", { role: "status" });
  const button = h("button", { type: "submit" }, "Submit");
  const submit = async (event) => {
    event.preventDefault();
    const value = (name) => event.target.elements[name].value.trim();
    const number = (name) => (value(name) ? Number(value(name)) : null);
    const request = {
      workload: value("workload") || null, cases: value("cases").split(/[\s,]+/).filter(Boolean), budget: value("budget") || null,
      max_cost_usd: number("money"), max_iterations: number("iterations"), device: value("device") || null,
    };
    button.disabled = true;
    try {
      const body = { project: value("project"), priority: number("priority") ?? 0, request };
      const { id } = await post("/submissions", body, { "Idempotency-Key": key });
      key = newKey();
      answer.replaceChildren(h("p", null, "Submitted as ", link(`/submissions/${id}`, `submission #${id}`), "."));
    } catch (error) {
      if (error.status) key = newKey();
      answer.replaceChildren(h("p", { class: "error" }, error.message));
    }
    button.disabled = false;
  };
  return h("form", { submit }, h("fieldset", null, h("legend", null, "Submit a session"),
    h("div", { class: "fields" },
      field("Project", project), field("Workload", workload), field("Cases", input("cases", "all")),
      field("Device", input("device", "the project's")), field("Time", input("budget", "10m")),
      field("Money, US dollars", input("money", "no limit")), field("Iterations", input("iterations", "no limit")),
      field("Priority", input("priority", "0"))),
    h("div", { class: "actions" }, button), answer));
}

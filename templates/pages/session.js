// One session on record: its result, its winners and its report.

import { get, save, text } from "./api.js";
import { copier } from "./copy.js";
import { address, h, link, table, tiles } from "./dom.js";
import { dollars, duration, interval, micros, parameters } from "./format.js";
import { parallel } from "./parallel.js";

// The most iterations that are drawn.
const MOST_DRAWN = 1000;

const FORMS = [["html", "text/html"], ["md", "text/markdown"], ["json", "application/json"], ["csv", "text/csv"]];

// The only place where a text becomes elements. A report is escaped by its templates, and the policy of this page lets nothing
// in it run.
const reports = window.trustedTypes?.createPolicy("report", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

export async function session([project, number], query, signal) {
  const row = await get(address(["projects", project, "sessions", number]), signal);
  const report = (form) => address(["projects", project, "sessions", number, "report"], { format: form });
  const download = async (form, type) => save(`session-${number}.${form}`, await text(report(form), signal), type);
  const [whole, best, tried] = ["The report is being written.", "The winners are being read.", "The iterations are being read."].map((said) => h("div", { "aria-busy": "true" }, h("p", { class: "note", role: "status" }, said)));
  fill(whole, signal, async () => written(await text(report("html"), signal)));
  fill(best, signal, async () => winners(project, (await get(report("json"), signal)).cases, signal));
  fill(tried, signal, async () => parallel(await get(address(["projects", project, "sessions", number, "iterations"], { limit: MOST_DRAWN }), signal)));
  const other = Math.max(1, Number(number) - 1);
  return {
    title: `Session ${number} of ${project}`,
    elements: [
      tiles([
        ["workload", row.workload], ["status", row.status], ["best gain", interval(row.best_speedup, row.best_speedup_ci)], ["wins", String(row.wins)],
        ["iterations", String(row.iterations)], ["took", duration(row.wall_s)], ["cost", dollars(row.cost.gpu_usd + row.cost.llm_usd)],
        ["times", row.time_source],
      ]),
      h("p", null, `On ${row.device}. `, row.stop_reason ? `It ended because ${row.stop_reason}.` : ""),
      h("ul", null,
        h("li", null, link(address(["projects", project, "history"], { session: number }), "Its iterations")),
        row.submission && h("li", null, link(`/submissions/${row.submission}`, `Its submission, #${row.submission}`)),
        Number(number) > 1 && h("li", null, link(address(["projects", project, "compare"], { what: "sessions", a: String(other), b: number }), `Compare it with session ${other}`))),
      h("div", { class: "actions" }, "Report: ", FORMS.map(([form, type]) => h("button", { type: "button", click: () => download(form, type) }, `Save as ${form}`))),
      h("h2", null, "Winners"), best, h("h2", null, "Configurations"), tried, h("h2", null, "Report"), h("div", { class: "report" }, whole),
    ],
  };
}

/** Shows what is read later. */
async function fill(place, signal, read) {
  try {
    place.replaceChildren(...[await read()].flat());
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(h("p", { class: "error" }, error.message));
  }
  place.removeAttribute("aria-busy");
}

/** Returns the best variant of each case, to be copied. */
function winners(project, cases, signal) {
  const source = async (iteration) => (await get(address(["projects", project, "iterations", String(iteration)]), signal)).source ?? "";
  return table("Winners", [
    { title: "case", cell: (row) => row.case }, { title: "time", cell: (row) => micros(row.best_us), figures: true },
    { title: "variant", cell: (row) => h("code", null, `${row.variant.family} ${parameters(row.variant.params)}`) },
    { title: "iteration", cell: (row) => (row.iteration ? link(address(["projects", project, "iterations", String(row.iteration)]), `#${row.iteration}`) : null) },
    { title: "copy", cell: (row) => h("div", { class: "actions" }, copier("Parameters", () => `${row.variant.family} ${parameters(row.variant.params)}`), row.iteration && copier("Source", () => source(row.iteration))) },
  ], cases.filter((row) => row.variant), "No variant was correct.");
}

/** Returns the parts of a report, whose style the page has. Its headings lie one level below those of the page. */
function written(html) {
  // Without its own style, which the policy of this page forbids.
  const [body = ""] = html.match(/<header>[\s\S]*<\/main>/) ?? [];
  const parsed = new DOMParser().parseFromString(reports.createHTML(body), "text/html");
  const parts = [...parsed.querySelectorAll("header > :not(.eyebrow), main > *")].map((part) => document.adoptNode(part));
  const lower = (heading) => {
    const level = Number(heading.tagName[1]) + (heading.tagName === "H1" ? 2 : 1);
    const lowered = h(`h${level}`, { id: heading.id || null }, ...heading.childNodes);
    heading.replaceWith(lowered);
    return lowered;
  };
  const holder = h("div", null, ...parts);
  holder.querySelectorAll("h1, h2, h3").forEach(lower);
  return [...holder.childNodes];
}

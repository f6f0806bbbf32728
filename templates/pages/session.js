// One session on record: its result, its report and its pictures.

import { get, save, text } from "./api.js";
import { address, h, link, tiles } from "./dom.js";
import { dollars, duration, interval } from "./format.js";

const FORMS = [["html", "text/html"], ["md", "text/markdown"], ["json", "application/json"], ["csv", "text/csv"]];

// The only place where a text becomes elements. A report is escaped by its templates, and the policy of this page lets nothing
// in it run.
const reports = window.trustedTypes?.createPolicy("report", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

export async function session([project, number], query, signal) {
  const row = await get(address(["projects", project, "sessions", number]), signal);
  const report = (form) => address(["projects", project, "sessions", number, "report"], { format: form });
  const download = async (form, type) => save(`session-${number}.${form}`, await text(report(form), signal), type);
  const pictures = h("div", { "aria-busy": "true" }, h("p", { class: "note", role: "status" }, "The pictures are being drawn."));
  draw(pictures, report("html"), signal);
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
        h("li", null, link(address(["projects", project, "compare"], { what: "sessions", a: String(other), b: number }), `Compare it with session ${other}`))),
      h("div", { class: "actions" }, "Report: ", FORMS.map(([form, type]) => h("button", { type: "button", click: () => download(form, type) }, `Save as ${form}`))),
      h("h2", null, "Pictures"), pictures,
    ],
  };
}

async function draw(place, path, signal) {
  try {
    // The rest of the report, and its own style above all, is not wanted here.
    const drawn = (await text(path, signal)).match(/<figure[\s\S]*?<\/figure>/g) ?? [];
    const parsed = new DOMParser().parseFromString(reports.createHTML(drawn.join("")), "text/html");
    const figures = [...parsed.querySelectorAll("figure")].map((figure) => document.adoptNode(figure));
    place.replaceChildren(...(figures.length ? figures : [h("p", { class: "note" }, "There is nothing to draw yet.")]));
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(h("p", { class: "error" }, error.message));
  }
  place.removeAttribute("aria-busy");
}

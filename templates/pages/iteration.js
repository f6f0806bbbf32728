// One iteration: hypothesis and outcome, measurements, source, difference, compiler log.

import { get } from "./api.js";
import { copier } from "./copy.js";
import { difference, source } from "./code.js";
import { address, h, link, table, tiles } from "./dom.js";
import { duration, interval, micros, parameters, percent, range, times } from "./format.js";
import { strip } from "./samples.js";

const TIMES = [
  { title: "case", cell: (row) => row.case },
  { title: "verdict", cell: (row) => row.verdict?.replaceAll("_", " ") },
  { title: "median", cell: (row) => micros(row.median_us), figures: true },
  { title: "95% interval", cell: (row) => range(row.ci_us), figures: true },
  { title: "over the incumbent", cell: (row) => interval(row.speedup, row.speedup_ci), figures: true },
  { title: "noise", cell: (row) => percent(row.noise), figures: true },
  { title: "samples", cell: (row) => row.samples, figures: true },
  { title: "times", cell: (row) => row.time_source },
];

const KERNELS = [
  { title: "kernel", cell: (row) => row.name },
  { title: "registers", cell: (row) => row.registers, figures: true },
  { title: "static shared memory", cell: (row) => `${row.shared_bytes} B`, figures: true },
  { title: "spilled", cell: (row) => `${row.spill_store_bytes + row.spill_load_bytes} B`, figures: true },
  { title: "stack", cell: (row) => `${row.stack_bytes} B`, figures: true },
];

const CAUSES = [
  { title: "case", cell: (row) => row.case },
  { title: "cause", cell: (row) => row.cause },
  { title: "evidence", cell: (row) => row.evidence.map(({ supports, text }) => (supports ? text : `against: ${text}`)).join("; ") },
  { title: "gain", cell: (row) => (row.gain > 1 ? times(row.gain) : "not known"), figures: true },
  { title: "confidence", cell: (row) => row.confidence },
  { title: "experiments say", cell: (row) => (row.tested.iteration ? `${row.tested.status.replaceAll("_", " ")}, iteration ${row.tested.iteration}` : "not tested") },
];

function hypothesis({ hypothesis: { claim, evidence, mechanism, predicted, reference, relative_to: relative }, actual, score }) {
  const over = relative ? `iteration ${relative}` : `the ${reference.replaceAll("_", " ")}`;
  return [
    h("h2", null, "Hypothesis"), h("p", null, claim), h("p", { class: "note" }, `Evidence: ${evidence}. Mechanism: ${mechanism}.`),
    h("p", null, predicted
      ? `Predicted: ${times(predicted.median)} over ${over}, with 80% probability ${times(predicted.lo)} to ${times(predicted.hi)}. Found: ${times(actual) ?? "not measured"} (${score.replaceAll("_", " ")}).`
      : `Nothing was predicted. Found: ${times(actual) ?? "not measured"}.`),
  ];
}

const causes = (diagnoses) => diagnoses.flatMap(({ case: name, findings }) => findings.map((found) => ({ ...found, case: name })));

const measurements = (rows) => rows.flatMap((row) => {
  const drawn = [["screening run", row.screening], ["comparison", row.confirmation]].filter(([, taken]) => taken?.samples_ns?.length);
  return drawn.map(([name, taken]) => h("figure", null, h("figcaption", null, `${row.case}, ${name}`), strip(`${row.case}, ${name}`, taken)));
});

export async function iteration([project, number], query, signal) {
  const at = (...more) => address(["projects", project, "iterations", number, ...more]);
  const [{ iteration: row, times: rows, diagnoses, source: code, artifact, compile_log: log }, { against, cases, diff }] =
    await Promise.all([get(at(), signal), get(at("diff"), signal)]);
  const { outcome } = row;
  return {
    title: `Iteration ${number} of ${project}`,
    elements: [
      tiles([["family", row.family], ["outcome", outcome.kind.replaceAll("_", " ")], ["from", row.origin.kind.replaceAll("_", " ")], ["took", duration(row.wall_s)]]),
      outcome.message && h("p", { class: "error" }, outcome.case ? `${outcome.case}: ${outcome.message}` : outcome.message),
      h("p", null, h("code", null, parameters(row.params))),
      h("div", { class: "actions" }, copier("Copy parameters", () => `${row.family} ${parameters(row.params)}`), code && copier("Copy source", () => code)),
      h("p", null, "Of ", link(address(["projects", project, "sessions", String(row.session)]), `session ${row.session}`),
        row.parent ? [", made from ", link(address(["projects", project, "iterations", String(row.parent)]), `iteration ${row.parent}`)] : "",
        cases.length ? [" (", link(address(["projects", project, "compare"], { what: "iterations", a: String(row.parent), b: number, case: cases[0] }), "compare"), ")"] : "", "."),
      hypothesis(row), h("h2", null, "Measurements"), table("Measurements", TIMES, rows, "No case was measured."), measurements(row.measurements),
      h("h2", null, "Causes of lost time"), table("Causes of lost time", CAUSES, causes(diagnoses), "No rule found one."),
      h("h2", null, against ? `Difference from iteration ${against}` : "Difference from its parent"),
      diff ? difference(diff) : h("p", { class: "note" }, against ? "The sources are equal." : "It has no parent."),
      h("h2", null, "Compiler"), table("Kernels", KERNELS, artifact?.kernels ?? [], "It was not compiled."),
      (log ?? artifact?.log) ? h("pre", { tabindex: "0", role: "region", "aria-label": "compiler log" }, log ?? artifact.log) : h("p", { class: "note" }, "The compiler said nothing."),
      h("h2", null, "Source"), code ? source(code) : h("p", { class: "note" }, "No source was rendered."),
    ],
  };
}

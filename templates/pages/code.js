// Shows CUDA sources and differences between them.

import { h } from "./dom.js";

const KEYWORDS = new Set(
  ("alignas auto bool break case char class const constexpr continue default do double else enum extern false float for if inline int long " +
    "namespace operator return short signed sizeof static static_assert struct switch template true typedef typename union unsigned using void " +
    "volatile while __device__ __global__ __shared__ __constant__ __launch_bounds__ __restrict__ __forceinline__ __align__ __grid_constant__ asm").split(" "),
);

// In order: comments, strings, directives, numbers and words. Everything else is plain.
const TOKEN = /(\/\/[^\n]*|\/\*[^]*?\*\/)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(^[ \t]*#[^\n]*)|(\b\d[\w.]*)|([A-Za-z_]\w*)/gm;

/** Makes a source with highlighted tokens. */
export function source(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token, comment, string, directive, number, word] = match;
    const kind = comment ? "comment" : string ? "string" : directive ? "directive" : number ? "number" : KEYWORDS.has(word) ? "keyword" : null;
    if (!kind) continue;
    nodes.push(text.slice(end, match.index), h("span", { class: kind }, token));
    end = match.index + token.length;
  }
  nodes.push(text.slice(end));
  return h("pre", { class: "source", tabindex: "0", role: "region", "aria-label": "source" }, h("code", null, nodes));
}

/** Makes a unified difference with added and removed lines. */
export function difference(text) {
  const kind = (line) => (/^(---|\+\+\+|@@)/.test(line) ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : null);
  const lines = text.replace(/\n$/, "").split("\n").map((line) => h("span", { class: kind(line) }, line || " "));
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "difference" }, lines);
}

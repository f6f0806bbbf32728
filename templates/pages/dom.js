// Makes elements. Texts become text nodes, never markup, so nothing that a kernel, a model or a log wrote can run.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes an HTML element. An attribute that is a function listens to the event of its name. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** Makes an SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Makes a table in a region that scrolls by itself. A column has a `title`, a `cell(row)`, and `figures` for numbers or `prose`. */
export function table(caption, columns, rows, empty = "There is nothing here yet.") {
  if (rows.length === 0) return h("p", { class: "note" }, empty);
  const kind = (column) => ({ class: column.figures ? "figures" : column.prose ? "prose" : null });
  const head = columns.map((column) => h("th", { scope: "col", ...kind(column) }, column.title));
  const body = rows.map((row) => h("tr", null, columns.map((column) => h("td", { ...kind(column), "data-title": column.title.textContent ?? column.title }, column.cell(row) ?? "-"))));
  const whole = h("table", { class: "stacks", "aria-label": caption }, h("thead", null, h("tr", null, head)), h("tbody", null, body));
  return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, whole);
}

/** Makes tiles: pairs of a name and a value. */
export const tiles = (pairs) =>
  h("dl", { class: "tiles" }, pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value ?? "-"))));

/** Makes a field of a form with its label. */
export const field = (label, control) => h("label", null, label, control);

/** Makes a select of `[value, text]` pairs. */
export const choice = (name, options, selected = "") =>
  h("select", { name }, options.map(([value, text]) => h("option", { value, selected: value === selected }, text)));

/** Makes a link to a view. */
export const link = (view, text) => h("a", { href: `#${view}` }, text);

/** Makes the address of a view: names are encoded, and empty parameters are left out. */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return `/${parts.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

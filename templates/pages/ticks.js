// Comparing two rows of a table by ticking them.

import { address, h } from "./dom.js";

/** Returns a column of tick boxes, and a button that compares the two rows that are ticked. `query` gets both rows. */
export function ticks(project, name, query) {
  const chosen = [];
  const button = h("button", { type: "button", disabled: true, click: () => { location.hash = address(["projects", project, "compare"], query(...chosen)); } }, "Compare the two ticked rows");
  const change = (row) => (event) => {
    const place = chosen.indexOf(row);
    if (event.target.checked) chosen.push(row);
    else chosen.splice(place, 1);
    button.disabled = chosen.length !== 2;
  };
  const column = { title: "compare", cell: (row) => h("input", { type: "checkbox", "aria-label": `compare ${name(row)}`, change: change(row) }) };
  return { column, button: h("div", { class: "actions" }, button) };
}

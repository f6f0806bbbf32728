// A button that copies a text.

import { h } from "./dom.js";

const SHOWN_MS = 2000;

/** Makes a button. `read` returns the text, or a promise of it. */
export function copier(title, read) {
  const button = h("button", { type: "button", click: async () => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(await read());
    } catch {
      // Browsers have no clipboard for pages from another machine without HTTPS.
      done = "Not copied: select the text instead";
    }
    button.textContent = done;
    setTimeout(() => { button.textContent = title; }, SHOWN_MS);
  } }, title);
  return button;
}

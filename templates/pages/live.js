// Lists that change while they are shown.

import { h } from "./dom.js";

const REFRESH_MS = 2000;

/**
 * Returns an element with what `show` makes of `rows`. It is made anew of what `load` returns, as long as the view is shown, unless
 * the reader has another tab or is in the list.
 */
export function live(rows, load, show, signal) {
  const list = h("div", null, show(rows));
  const refresh = async () => {
    if (signal.aborted) return clearInterval(timer);
    if (document.hidden || list.contains(document.activeElement)) return;
    const fresh = await load().catch(() => null);
    if (fresh) list.replaceChildren(show(fresh));
  };
  const timer = setInterval(refresh, REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return list;
}

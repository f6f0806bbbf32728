// Shows the view that the address names, behind the `#`.

import { Refusal, dropToken, hasToken } from "./api.js";
import { h } from "./dom.js";
import { compare } from "./compare.js";
import { history } from "./history.js";
import { iteration } from "./iteration.js";
import { login } from "./login.js";
import { queue } from "./queue.js";
import { progress } from "./progress.js";
import { projects, sessions } from "./sessions.js";
import { session } from "./session.js";
import { submission } from "./submission.js";
import { workers } from "./workers.js";

// A view gets the parts of the address, its query, and a signal that is aborted when another one is shown. It returns a title
// and the elements below it.
const VIEWS = [
  [/^\/$/, queue],
  [/^\/submissions\/(\d+)$/, submission],
  [/^\/workers$/, workers],
  [/^\/projects$/, projects],
  [/^\/projects\/([^/]+)\/sessions$/, sessions],
  [/^\/projects\/([^/]+)\/sessions\/(\d+)$/, session],
  [/^\/projects\/([^/]+)\/iterations\/(\d+)$/, iteration],
  [/^\/projects\/([^/]+)\/history$/, history],
  [/^\/projects\/([^/]+)\/compare$/, compare],
  [/^\/projects\/([^/]+)\/progress$/, progress],
];

const main = document.getElementById("main");
let shown = new AbortController();

function show(title, elements) {
  document.title = `${title} - optloop`;
  main.replaceChildren(h("h1", null, title), ...elements.flat(Infinity).filter(Boolean));
}

function failed(error) {
  if (error instanceof Refusal && error.status === 401) {
    dropToken();
    return show("Log in", login(render));
  }
  const sentence = error instanceof Refusal ? error.message : `the service does not answer (${error.message})`;
  const again = h("button", { type: "button", click: render }, "Try again");
  return show("This did not work", [h("p", { class: "error", role: "alert" }, sentence), again]);
}

const nowhere = () => ({ title: "There is no such page", elements: [h("p", null, h("a", { href: "#/" }, "Go to the queue"))] });

async function render() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { hash } = location;
  const [path, query = ""] = (hash.slice(1) || "/").split("?");
  for (const anchor of document.querySelectorAll("nav a")) {
    const here = anchor.hash.slice(1);
    anchor.toggleAttribute("aria-current", false);
    if (here === path || (here !== "/" && path.startsWith(here))) anchor.setAttribute("aria-current", "page");
  }
  const found = VIEWS.map(([pattern, view]) => [pattern.exec(path), view]).find(([match]) => match);
  main.setAttribute("aria-busy", "true");
  try {
    const [match, view] = found ?? [[], nowhere];
    const parts = match.slice(1).map(decodeURIComponent);
    const { title, elements } = await view(parts, new URLSearchParams(query), signal);
    if (!signal.aborted) show(title, elements);
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
  if (signal.aborted) return;
  main.removeAttribute("aria-busy");
  main.dataset.view = hash;
}

window.addEventListener("hashchange", async () => {
  await render();
  main.focus();
  window.scrollTo(0, 0);
});
// The address behind the `#` names the view, so the link cannot lead to an element.
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
if (hasToken()) {
  const leave = () => {
    dropToken();
    location.reload();
  };
  document.querySelector("nav ul").append(h("li", null, h("button", { type: "button", click: leave }, "Log out")));
}
render();

// Asks for a token.

import { setToken } from "./api.js";
import { field, h } from "./dom.js";

export function login(done) {
  const input = h("input", { name: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    done();
  };
  return [
    h("p", null, "This service needs a token. ", h("code", null, "optloop serve --new-token NAME"), " makes one."),
    h("form", { submit }, h("div", { class: "fields" }, field("Token", input)), h("p", null, h("button", { type: "submit" }, "Log in"))),
  ];
}

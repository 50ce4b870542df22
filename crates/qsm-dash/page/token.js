// A form for the token.

import { setToken } from "./stream.js";
import { node } from "./table.js";

// `given` is called once there is a token, right or wrong.
export function tokenForm(why, given) {
  const form = node("form", "token");
  const label = node("label", "", "Token, as the program has said it ");
  const input = node("input");
  input.type = "password";
  input.autocomplete = "off";
  input.required = true;
  label.append(input);
  const button = node("button", "", "Open");
  form.append(node("p", "", why), label, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    given();
  });
  return form;
}

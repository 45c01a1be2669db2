// Who is signed in. The token lives in this tab's session storage, and is sent in a header only.

import { createStore } from "./store.js";

const KEY = "walrelay.token";
const ORDER = ["read", "operate", "admin"];

export const session = createStore({ me: null, asked: false, refused: "" });

export function token() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function keepToken(value) {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser that keeps nothing asks again after a reload.
  }
}

export function may(scope, me = session.get().me) {
  return me !== null && ORDER.indexOf(me.scope) >= ORDER.indexOf(scope);
}

export function whyNot(scope, me = session.get().me) {
  if (may(scope, me)) return "";
  return `This takes the scope "${scope}"; ${me?.name ?? "you"} has "${me?.scope ?? "none"}".`;
}

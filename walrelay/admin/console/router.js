// Which view the address asks for: all of it is behind the #, so no server sees a filter or an id.

import { createStore } from "./store.js";

export function parseHash(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hashOf(parts, query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const text = search.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const route = createStore(parseHash(location.hash));
addEventListener("hashchange", () => route.set(parseHash(location.hash)));

export function go(parts, query) {
  location.hash = hashOf(parts, query);
}

// Changes filters without a step in the history.
export function replaceQuery(query) {
  history.replaceState(null, "", hashOf(route.get().parts, query));
  route.set(parseHash(location.hash));
}

// Asks the admin API. An error is a Problem with what happened and what to do.

import { useEffect, useRef, useState } from "./html.js";
import { keepToken, session, token } from "./session.js";

const PREFIX = "/api/v1";

export class Problem extends Error {
  constructor(status, detail, hint = "") {
    super(detail);
    this.status = status;
    this.hint = hint;
  }
}

export function headers(more = {}) {
  const shown = token();
  return shown ? { ...more, Authorization: `Bearer ${shown}` } : more;
}

export function url(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") search.append(name, each);
    }
  }
  const text = search.toString();
  return PREFIX + path + (text ? `?${text}` : "");
}

export const at = (relay, rest = "") => `/relays/${encodeURIComponent(relay)}${rest}`;

export async function problemOf(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // Something between us and the API answered.
  }
  const problem = new Problem(response.status, told.detail ?? `the answer was ${response.status}`, told.hint ?? "");
  if (response.status === 401) signedOut(token() ? problem.message : "");
  return problem;
}

// `text`: a body that is JSON already.
export async function ask(path, { method = "GET", body, text, query, signal } = {}) {
  let response;
  try {
    response = await fetch(url(path, query), {
      method,
      signal,
      cache: "no-store",
      credentials: "omit",
      headers: headers(method === "GET" ? {} : { "Content-Type": "application/json" }),
      body: method === "GET" ? undefined : (text ?? JSON.stringify(body ?? {})),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "the admin API does not answer", "Is `walrelay admin` running?");
  }
  if (!response.ok) throw await problemOf(response);
  return response.status === 204 ? null : response.json();
}

export function signedOut(refused = "") {
  keepToken("");
  session.set({ me: null, asked: true, refused });
}

export async function signIn(given) {
  if (given !== undefined) keepToken(given);
  try {
    session.set({ me: await ask("/me"), asked: true, refused: "" });
  } catch (error) {
    if (error.status !== 401) throw error;
    session.set({ refused: given ? "This token is not known." : "" });
  }
}

// The answer to a question, asked again when what it is about changes, and every so many seconds. What was told before
// stays until the next answer. `path` null: nothing is asked.
export function useAsked(path, { query, every = 0 } = {}) {
  const asked = path === null ? null : url(path, query);
  const [state, setState] = useState({ asked: null, data: null, problem: null });
  const [turn, setTurn] = useState(0);
  const current = useRef(null);
  current.current = asked;
  useEffect(() => {
    if (asked === null) return undefined;
    const aborted = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const data = await ask(path, { query, signal: aborted.signal });
        if (current.current === asked) setState({ asked, data, problem: null });
      } catch (problem) {
        if (problem.name === "AbortError") return;
        if (current.current === asked) {
          setState((before) => ({ asked, data: before.asked === asked ? before.data : null, problem }));
        }
      }
      if (every && !aborted.signal.aborted) timer = setTimeout(look, every * 1000);
    };
    look();
    return () => {
      aborted.abort();
      clearTimeout(timer);
    };
  }, [asked, turn, every]);
  const mine = state.asked === asked;
  return {
    data: mine ? state.data : null,
    problem: mine ? state.problem : null,
    loading: asked !== null && !mine,
    reload: () => setTurn((before) => before + 1),
  };
}

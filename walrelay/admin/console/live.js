// The stream of server-sent events, read with fetch so that the token is in a header. It comes back by itself.

import { ask, headers, problemOf, url } from "./api.js";
import { createStore } from "./store.js";

const QUIET = 35_000; // milliseconds; the server sends a comment every 15 s
const LONGEST = 15_000;
const KEPT_EVENTS = 500;
const KEPT_RATES = 60;

// `live`: whether the stream is there; `since`: from when on it is not.
export const live = createStore({ live: false, since: null, why: "" });
export const overview = createStore({ at: null, relays: null, problems: [], rates: new Map() });
export const watched = createStore({ relay: null, activity: null, before: null, events: [], jobs: null });

const decoders = { overview: tellOverview, activity: tellActivity, events: tellEvents, jobs: tellJobs };

function tellOverview(told) {
  const { rates } = overview.get();
  for (const each of told.relays) {
    if (!each.in_settings) continue;  // nobody tells their rates, and names repeat
    const kept = rates.get(each.name) ?? [];
    kept.push(each.published_per_second ?? null);
    if (kept.length > KEPT_RATES) kept.shift();
    rates.set(each.name, kept);
  }
  overview.set({ at: told.at, relays: told.relays.map((each) => ({ ...each, sinks: each.sinks ?? [] })), problems: told.problems ?? [], rates });
}

function tellActivity(told) {
  watched.set((was) => {
    const again = was.activity && was.activity.instance === told.instance && was.activity.since === told.since;
    return { activity: told, before: again && was.activity.at !== told.at ? was.activity : again ? was.before : null };
  });
}

function tellEvents(told) {
  const fresh = Array.isArray(told) ? told : (told.events ?? []);
  if (!fresh.length) return;
  watched.set((was) => {
    const same = new Set(fresh.map(nameOf));
    return { events: [...fresh, ...was.events.filter((each) => !same.has(nameOf(each)))].slice(0, KEPT_EVENTS) };
  });
}

export const nameOf = (event) => `${event.commit_lsn} ${event.position} ${event.sink} ${event.topic} ${event.number}`;

function tellJobs(told) {
  watched.set({ jobs: Array.isArray(told) ? told : (told.jobs ?? []) });
}

let current = null;

// Follows all relays, and one in particular. Ends what was followed before.
export function follow(relay) {
  current?.abort();
  const aborted = (current = new AbortController());
  if (watched.get().relay !== relay) watched.set({ relay, activity: null, before: null, events: [], jobs: null });
  run(relay, aborted.signal);
  return () => aborted.abort();
}

async function run(relay, signal) {
  let pause = 1000;
  while (!signal.aborted) {
    const began = Date.now();
    try {
      await readStream(relay, signal);
      gone("the stream ended");
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      gone(error.message);
    }
    if (Date.now() - began > 10_000) pause = 1000;
    await wait(pause, signal);
    pause = Math.min(2 * pause, LONGEST);
    if (!signal.aborted) await lookOnce(signal);
  }
}

function gone(why) {
  live.set((was) => ({ live: false, since: was.live || !was.since ? Date.now() : was.since, why }));
}

async function lookOnce(signal) {
  try {
    tellOverview(await ask("/overview", { signal }));
  } catch {
    // The next try says whether it is back.
  }
}

function wait(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function readStream(relay, signal) {
  const quiet = new AbortController();
  const stop = () => quiet.abort();
  signal.addEventListener("abort", stop, { once: true });
  let timer = setTimeout(stop, QUIET);
  try {
    const response = await fetch(url("/stream", relay ? { relay } : {}), {
      headers: headers({ Accept: "text/event-stream" }),
      cache: "no-store",
      credentials: "omit",
      signal: quiet.signal,
    });
    if (!response.ok) throw await problemOf(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, QUIET);
      live.set((was) => (was.live ? was : { live: true, since: null, why: "" }));
      const parts = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = parts.pop();
      for (const part of parts) take(part);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

// One event: its lines, as the standard has them.
export function parse(text) {
  let event = "message";
  const data = [];
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return { event, data: data.join("\n") };
}

function take(text) {
  const { event, data } = parse(text);
  const tell = decoders[event];
  if (!tell || !data) return;
  try {
    tell(JSON.parse(data));
  } catch (error) {
    console.warn(`an event of the stream was not understood: ${event}`, error.name);
  }
}

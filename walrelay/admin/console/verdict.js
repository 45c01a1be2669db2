// What all relays together come to, in one sentence; and how one is doing, in a word. Pure.

import { duration, isNumber, plural, since } from "./format.js";

const RANK = { critical: 0, warning: 1, ok: 3 };
const PAUSED = 2;

const rank = (relay) => (relay.paused && relay.level !== "critical" ? PAUSED : RANK[relay.level]);

// The worst first, then the latest, then by name.
export function bySeverity(relays) {
  return [...relays].sort(
    (a, b) =>
      rank(a) - rank(b) || (b.lag_seconds ?? 0) - (a.lag_seconds ?? 0) || a.name.localeCompare(b.name),
  );
}

export function worst(relays) {
  return relays.reduce((found, each) => (RANK[each.level] < RANK[found] ? each.level : found), "ok");
}

// A sign and a word. A pause is what somebody wants, so it has its own sign unless it has become dangerous.
export function condition(relay) {
  if (relay.paused) return { level: relay.level === "critical" ? "critical" : "paused", text: "paused" };
  if (relay.state === "failed") return { level: "critical", text: "failed" };
  if (relay.state === "stopped") return { level: relay.level === "ok" ? "none" : relay.level, text: "stopped" };
  if (relay.state === "retrying") return { level: relay.level === "ok" ? "warning" : relay.level, text: "retrying" };
  if (relay.state === "waiting") return { level: relay.level === "ok" ? "warning" : relay.level, text: "waits for its sink" };
  if (!relay.instance) return { level: relay.level === "ok" ? "none" : relay.level, text: relay.state };
  if (relay.level === "critical") return { level: "critical", text: "needs you" };
  if (relay.level === "warning") return { level: "warning", text: "look at it" };
  return { level: "ok", text: "flows" };
}

export function verdict(relays, problems = []) {
  if (!relays.length) {
    const away = problems.length > 0;
    return {
      level: away ? "critical" : "ok",
      text: away ? `No relay can be seen: ${problems[0].detail}.` : "There is no relay to look at.",
      todo: away ? problems[0].hint : "Name one in the settings file, then `walrelay init` and `walrelay run`.",
    };
  }
  const critical = relays.filter((each) => each.level === "critical");
  const warned = relays.filter((each) => each.level === "warning" && !each.paused);
  const paused = relays.filter((each) => each.paused && each.level !== "critical");
  const others = [
    critical.length > 1 && `${plural(critical.length - 1, "other")} ${critical.length === 2 ? "needs" : "need"} you too`,
    critical.length > 0 && warned.length > 0 && `${plural(warned.length, "relay")} to look at`,
    paused.length > 0 && `${paused.length === 1 ? `${paused[0].name} is` : `${paused.length} are`} paused`,
  ].filter(Boolean);
  const [first] = bySeverity([...critical, ...warned]);
  if (first) {
    const more = critical.length ? others : [warned.length > 1 && `${plural(warned.length - 1, "other")} to look at`, ...others];
    return {
      level: first.level,
      relay: first.name,
      text: `${first.name} ${clause(first)}`,
      todo: first.todo,
      rest: more.filter(Boolean).join("; "),
    };
  }
  const flowing = relays.filter((each) => !each.paused);
  if (!flowing.length) {
    return { level: "paused", text: relays.length === 1 ? `${relays[0].name} is paused.` : `All ${relays.length} relays are paused.` };
  }
  const late = flowing.map((each) => each.lag_seconds).filter(isNumber);
  const slowest = late.length ? Math.max(...late) : null;
  const behind = slowest === null ? "" : slowest < 0.05 ? ", nothing waits" : `; the slowest is ${duration(slowest)} behind`;
  const one = slowest === null ? "" : slowest < 0.05 ? ", nothing waits" : `; it is ${duration(slowest)} behind`;
  const text = relays.length === 1 ? `${relays[0].name} flows${one}.` : `${flowing.length === relays.length ? `All ${relays.length} relays flow` : `${plural(flowing.length, "relay")} flow`}${behind}.`;
  return { level: "ok", text, rest: others.join("; ") };
}

// `why` is a clause about the relay or a sentence of its own.
function clause(relay) {
  const why = (relay.why ?? "").trim().replace(/\.$/, "");
  if (relay.paused) {
    const until = relay.paused.until ? ` until ${since(relay.paused.until)}` : "";
    return `is paused by ${relay.paused.by}${until}${why ? `: ${why}` : ""}.`;
  }
  if (!why) return relay.level === "critical" ? "needs you." : "is worth a look.";
  return relay.level === "critical" ? `needs you: ${why}.` : `is worth a look: ${why}.`;
}

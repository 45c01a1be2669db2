// The flow as a picture: PostgreSQL, the relay, its rules, its topics, with what goes over each edge a second.

import { bytes, count, duration, isNumber, plural, rate, short } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { watched } from "./live.js";
import { useStore } from "./store.js";
import { Section } from "./ui.js";
import { condition } from "./verdict.js";

const MOST = 6; // topics in the picture
const NODE = { height: 58, gap: 16 };
const SMALL = { height: 44, gap: 8 };

// Rates of the counters of two looks at one process; null until there are two.
export function rates(activity, before) {
  const seconds = activity && before ? (new Date(activity.at) - new Date(before.at)) / 1000 : 0;
  if (!(seconds > 0)) return { records: null, published: null, rules: new Map(), topics: new Map() };
  const per = (now, then) => Math.max(0, now - (then ?? 0)) / seconds;
  const topicsBefore = new Map((before.topics ?? []).map((each) => [topicKey(each), each.messages]));
  const rulesBefore = new Map((before.rules ?? []).map((each) => [each.rule, each.dropped]));
  return {
    records: per(activity.records, before.records),
    published: per(activity.published, before.published),
    rules: new Map((activity.rules ?? []).map((each) => [each.rule, per(each.dropped, rulesBefore.get(each.rule))])),
    topics: new Map((activity.topics ?? []).map((each) => [topicKey(each), per(each.messages, topicsBefore.get(topicKey(each)))])),
  };
}

const topicKey = (each) => `${each.sink} ${each.topic}`;

export function Flow({ relay, row }) {
  const { activity, before } = useStore(watched);
  const [place, width] = useWidth();
  const mine = activity && activity.slot === row?.slot ? activity : null;
  const speed = rates(mine, mine ? before : null);
  if (mine && speed.published === null) speed.published = row?.published_per_second ?? null;
  const drawing = mine || row ? draw(row, mine, speed, width) : null;
  return html`<${Section} title="Flow" id="flow" aside=${html`<span class="muted">${mine ? `${mine.instance ?? ""}` : "no instance tells of its work"}</span>`}>
    <div class="flow" ref=${place}>
      ${drawing && width > 0 && html`<svg width=${width} height=${drawing.height} viewBox=${`0 0 ${width} ${drawing.height}`}
        role="img" aria-label=${inWords(relay, row, mine, speed)}>
        ${drawing.edges.map((each) => html`<${Edge} key=${each.name} ...${each} />`)}
        ${drawing.nodes.map((each) => html`<${Node} key=${each.name} ...${each} />`)}
      </svg>`}
    </div>
  <//>`;
}

function useWidth() {
  const place = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const look = () => setWidth(place.current?.clientWidth ?? 0);
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(place.current);
    return () => watcher.disconnect();
  }, []);
  return [place, width];
}

function draw(row, activity, speed, width) {
  const state = row ? condition(row) : { level: "none", text: "" };
  const topics = busiest(activity, speed, row);
  const rules = (activity?.rules ?? []).filter((each) => each.dropped > 0 || (speed.rules.get(each.rule) ?? 0) > 0);
  const stages = [
    { name: "postgres", title: "PostgreSQL", lines: [row?.database ?? "", `${bytes(row?.retained_bytes)} of WAL held`], level: wal(row) },
    { name: "relay", title: "Relay", lines: [state.text + (isNumber(row?.in_flight ?? activity?.in_flight) ? ` · ${count(row?.in_flight ?? activity.in_flight)} in flight` : ""), activity?.latency?.p99 ? `p99 ${duration(activity.latency.p99)}` : ""], level: state.level },
    { name: "rules", title: "Rules", lines: rules.length ? [`${count(rules.reduce((sum, each) => sum + each.dropped, 0))} dropped`, rules.map((each) => each.rule).join(", ")] : ["nothing dropped", ""], level: "ok" },
  ];
  const sinks = topics.map(({ sink, topic, per, messages }) => ({ name: `${sink} ${topic}`, title: topic, lines: [`${sink ? `${sink} · ` : ""}${isNumber(messages) ? `${short(messages)} since start` : ""}`], per, level: waits(activity?.stalled, sink) ? "critical" : "ok" }));
  const stalled = Boolean(activity?.stalled) || row?.level === "critical";
  const flows = { relay: speed.records ?? speed.published, rules: speed.records ?? speed.published };
  return width < 620 ? upright(stages, sinks, flows, width, stalled) : across(stages, sinks, flows, width, stalled);
}

// What several sinks wait for is a list of `NAME: reason`.
function waits(stalled, sink) {
  if (stalled?.by !== "sink") return false;
  return !sink || `; ${stalled.why}`.includes(`; ${sink}: `);
}

function wal(row) {
  return row?.wal_status === "lost" || row?.wal_status === "unreserved" ? "critical" : "ok";
}

function busiest(activity, speed, row) {
  const known = (activity?.topics ?? []).map((each) => ({ ...each, per: speed.topics.get(topicKey(each)) ?? null }));
  if (!known.length) return (row?.sinks ?? []).map((each) => ({ sink: "", topic: each, per: speed.published, messages: null }));
  const sorted = known.sort((a, b) => (b.per ?? 0) - (a.per ?? 0) || b.messages - a.messages);
  const rest = sorted.slice(MOST);
  if (!rest.length) return sorted;
  const sum = (pick) => rest.reduce((total, each) => total + (pick(each) ?? 0), 0);
  return [...sorted.slice(0, MOST), { sink: "", topic: `${plural(rest.length, "other topic")}`, per: sum((each) => each.per), messages: sum((each) => each.messages) }];
}

function across(stages, sinks, flows, width, stalled) {
  const column = Math.min(220, (width - 3 * 64) / 4);
  const gap = (width - 4 * column) / 3;
  const height = Math.max(NODE.height + 40, sinks.length * (SMALL.height + SMALL.gap) - SMALL.gap) + 8;
  const middle = height / 2;
  const nodes = stages.map((each, index) => ({ ...each, x: index * (column + gap), y: middle - NODE.height / 2, width: column, height: NODE.height }));
  const edges = nodes.slice(1).map((to, index) => edge(`to ${to.name}`, nodes[index].x + column, middle, to.x, middle, flows[to.name], stalled));
  const top = middle - (sinks.length * (SMALL.height + SMALL.gap) - SMALL.gap) / 2;
  sinks.forEach((each, index) => {
    const y = top + index * (SMALL.height + SMALL.gap);
    nodes.push({ ...each, x: 3 * (column + gap), y, width: column, height: SMALL.height });
    edges.push(edge(`to ${each.name}`, 2 * (column + gap) + column, middle, 3 * (column + gap), y + SMALL.height / 2, each.per, stalled, true));
  });
  return { nodes, edges, height };
}

function upright(stages, sinks, flows, width, stalled) {
  const step = NODE.height + 36;
  const nodes = stages.map((each, index) => ({ ...each, x: 0, y: index * step, width, height: NODE.height }));
  const edges = nodes.slice(1).map((to, index) => edge(`to ${to.name}`, width / 2, nodes[index].y + NODE.height, width / 2, to.y, flows[to.name], stalled));
  const top = stages.length * step;
  sinks.forEach((each, index) => {
    const y = top + index * (SMALL.height + SMALL.gap);
    nodes.push({ ...each, x: 24, y, width: width - 24, height: SMALL.height, beside: rate(each.per) });
    edges.push({ ...edge(`to ${each.name}`, 10, top - 36, 24, y + SMALL.height / 2, each.per, stalled), label: null, path: `M10,${top - 36}V${y + SMALL.height / 2}H24` });
  });
  return { nodes, edges, height: top + sinks.length * (SMALL.height + SMALL.gap) };
}

function edge(name, x1, y1, x2, y2, per, stalled, late = false) {
  const bend = (x1 + x2) / 2;
  const path = y1 === y2 || x1 === x2 ? `M${x1},${y1}L${x2},${y2}` : `M${x1},${y1}C${bend},${y1} ${bend},${y2} ${x2},${y2}`;
  const label = x1 === x2
    ? { x: x1 + 8, y: (y1 + y2) / 2 + 4, anchor: "start" }
    : late ? { x: x2 - 6, y: y2 > y1 + 4 ? y2 + 16 : y2 - 6, anchor: "end" } : { x: bend, y: (y1 + y2) / 2 - 8, anchor: "middle" };
  return { name, path, per, stalled, label };
}

function Edge({ path, per, label, stalled }) {
  const moves = isNumber(per) && per > 0;
  const seconds = moves ? Math.max(0.35, 2.2 - 0.5 * Math.log10(1 + per)) : 0;
  return html`<g class=${`edge${moves ? " edge-moves" : ""}${stalled && !moves ? " edge-stalled" : ""}`}>
    <path d=${path} class="edge-line" />
    ${moves && html`<path d=${path} class="edge-traffic" style=${{ animationDuration: `${seconds.toFixed(2)}s` }} />`}
    ${label && isNumber(per) && html`<text x=${label.x} y=${label.y} text-anchor=${label.anchor} class="edge-label num">${rate(per)}</text>`}
  </g>`;
}

const GLYPHS = { ok: "", warning: "!", critical: "✕", paused: "❚❚", none: "–" };

function Node({ title, lines, x, y, width, height, level, beside }) {
  const room = Math.max(6, Math.floor((width - 20) / 6.6));
  const glyph = GLYPHS[level] ?? "";
  return html`<g transform=${`translate(${x},${y})`} class=${`node node-${level}`}>
    <title>${[title, ...lines].filter(Boolean).join(" · ")}</title>
    <rect width=${width} height=${height} rx="6" />
    <rect class="node-edge" width="3" height=${height} rx="1.5" />
    <text x="12" y="18" class="node-title">${cut(title, Math.floor((width - 24) / 8.2) - (beside ? 9 : glyph ? 3 : 0))}</text>
    ${lines.filter(Boolean).map((each, index) => html`<text x="12" y=${34 + index * 15} class="node-line num">${cut(each, room)}</text>`)}
    ${(glyph || beside) && html`<text x=${width - 10} y="18" text-anchor="end" class="node-glyph num">${beside ?? glyph}</text>`}
  </g>`;
}

function cut(text, room) {
  return text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

function inWords(relay, row, activity, speed) {
  const topics = (activity?.topics ?? []).map((each) => `${each.topic}${each.sink ? ` of ${each.sink}` : ""} ${rate(speed.topics.get(topicKey(each)) ?? null)}`);
  const state = row ? condition(row).text : "not known";
  return `Flow of ${relay}: PostgreSQL ${row?.database ?? ""} to the relay (${state}), ${rate(speed.published)} published. ${topics.length ? `To ${topics.slice(0, 12).join(", ")}.` : `To ${(row?.sinks ?? []).join(", ")}.`}`;
}

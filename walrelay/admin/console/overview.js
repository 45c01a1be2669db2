// The first five seconds: one sentence, then every relay, the worst first.

import { useAsked } from "./api.js";
import { bytes, count, duration, isNumber, plural, rate, since } from "./format.js";
import { html, useMemo, useState } from "./html.js";
import { Icon } from "./icons.js";
import { overview } from "./live.js";
import { hashOf } from "./router.js";
import { Sparkline } from "./sparkline.js";
import { useStore } from "./store.js";
import { Asked, Copy, Empty, Status } from "./ui.js";
import { bySeverity, condition, verdict } from "./verdict.js";

export function Overview() {
  const streamed = useStore(overview);
  const asked = useAsked("/overview");
  if (!streamed.relays) {
    return html`<h1 class="hidden">Relays</h1>
      <${Asked} asked=${asked} what="Looking at the relays">${(told) => html`<${Relays} told=${told} rates=${streamed.rates} />`}<//>`;
  }
  return html`<${Relays} told=${streamed} rates=${streamed.rates} />`;
}

function Relays({ told, rates }) {
  const [filter, setFilter] = useState("");
  const { relays, problems = [] } = told;
  const sorted = useMemo(() => bySeverity(relays), [relays]);
  const shown = sorted.filter((each) => matches(each, filter));
  return html`<h1 class="hidden">Relays</h1>
    <${Verdict} relays=${relays} problems=${problems} />
    ${problems.map((each) => html`<div class="problem" key=${each.database}>
      <${Icon} name="critical" />
      <div><p><strong>${each.database}: ${each.detail}</strong></p>${each.hint && html`<p>${each.hint}</p>`}</div>
    </div>`)}
    <div class="toolbar">
      <label class="search"><${Icon} name="search" /><span class="hidden">Filter relays</span>
        <input type="search" data-search placeholder="Filter by name, database, sink or state   /" value=${filter}
          onInput=${(event) => setFilter(event.target.value)} /></label>
      <span class="muted" aria-live="polite">${filter ? `${count(shown.length)} of ${plural(relays.length, "relay")}` : plural(relays.length, "relay")}</span>
    </div>
    ${relays.length > 0 && html`<table class="relays" role="table" aria-label="Relays, those that need you first">
      <thead role="rowgroup"><tr role="row">
        ${["Relay", "State", "Flow", "Behind", "WAL held", "Leads", "Dead letters"].map(
          (each, index) => html`<th scope="col" role="columnheader" class=${index > 1 && index !== 5 ? "right" : ""}>${each}</th>`,
        )}
      </tr></thead>
      <tbody role="rowgroup">${shown.map((each) => html`<${Row} key=${`${each.database} ${each.slot}`} relay=${each} values=${rates.get(each.name)} />`)}</tbody>
    </table>`}
    ${relays.length > 0 && !shown.length && html`<${Empty} title="No relay is called that">The filter looks at name, slot, database, sink and state.<//>`}`;
}

function matches(relay, filter) {
  const text = [relay.name, relay.slot, relay.database, ...(relay.sinks ?? []), condition(relay).text, relay.level].join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((each) => text.includes(each));
}

export function Verdict({ relays, problems }) {
  const { level, text, todo, rest, relay } = verdict(relays, problems);
  return html`<section class=${`verdict verdict-${level}`} aria-label="In one sentence">
    <${Icon} name=${level} size=${28} />
    <div class="verdict-text">
      <p class="verdict-sentence">${text}</p>
      <p class="hidden" role="status">${announced(level, relay)}</p>
      ${(todo || rest) && html`<div class="verdict-more">
        ${todo && html`<span class="todo"><span class="muted">What to do:</span> <code>${todo}</code> <${Copy} text=${todo} /></span>`}
        ${relay && html`<a href=${hashOf(["relays", relay])}>Look at ${relay}</a>`}
        ${rest && html`<span class="muted">${rest}.</span>`}
      </div>`}
    </div>
  </section>`;
}

// For screen readers: only when it becomes another one, not with every second that a lag grows.
function announced(level, relay) {
  if (level === "critical") return `${relay ?? "A database"} needs you.`;
  if (level === "warning") return `${relay} is worth a look.`;
  return level === "paused" ? "All relays are paused." : "All relays flow.";
}

function Row({ relay, values }) {
  const { level, text } = condition(relay);
  const link = hashOf(["relays", relay.name]);
  return html`<tr role="row" class=${`row-${level}`}>
    <th scope="row" role="rowheader" data-label="Relay">
      ${relay.in_settings === false ? html`<span class="relay-name">${relay.name}</span>` : html`<a class="relay-name" href=${link}>${relay.name}</a>`}
      <span class="sub">${relay.database}${relay.sinks?.length ? ` → ${relay.sinks.join(", ")}` : ""}${relay.in_settings === false ? " · not in this settings file" : ""}</span>
    </th>
    <td role="cell" data-label="State">
      <${Status} level=${level} text=${text} />
      <span class="sub">${stateNote(relay)}</span>
    </td>
    <td role="cell" class="right num" data-label="Flow">
      <span class="flow-cell"><${Sparkline} values=${values ?? []} /><span>${rate(relay.published_per_second)}</span></span>
    </td>
    <td role="cell" class="right num" data-label="Behind">
      ${behind(relay)}<span class="sub">${isNumber(relay.lag_bytes) && relay.lag_bytes > 0 ? bytes(relay.lag_bytes) : ""}</span>
    </td>
    <td role="cell" class="right num" data-label="WAL held">${bytes(relay.retained_bytes)}<span class="sub">${safety(relay)}</span></td>
    <td role="cell" data-label="Leads">
      ${relay.instance ? html`<span class="instance" title=${relay.instance}>${relay.instance}</span>` : html`<span class="faint">nobody</span>`}
      <span class="sub">${relay.standbys ? `${plural(relay.standbys, "standby", "standbys")}` : "no standby"}</span>
    </td>
    <td role="cell" class="right num" data-label="Dead letters">
      ${relay.dead_letters && relay.in_settings !== false
        ? html`<a href=${hashOf(["relays", relay.name, "dead-letters"])}>${count(relay.dead_letters)}<span class="hidden"> dead letters of ${relay.name}</span></a>`
        : html`<span class="faint">${relay.dead_letters === null ? "–" : count(relay.dead_letters)}</span>`}
    </td>
  </tr>`;
}

function stateNote(relay) {
  if (relay.paused) {
    const { by, reason, until } = relay.paused;
    return html`by ${by ?? "an unknown role"}${until ? html` until <span title=${until}>${since(until)}</span>` : ""}${reason ? `: ${reason}` : ""}`;
  }
  if (relay.level !== "ok") return relay.why;
  return isNumber(relay.latency_p99) ? `p99 ${duration(relay.latency_p99)}` : "";
}

export function behind(relay) {
  if (!isNumber(relay.lag_seconds)) return html`<span class="faint">not known</span>`;
  return relay.lag_seconds < 0.05 ? "0 s" : duration(relay.lag_seconds);
}

export function safety(relay) {
  if (relay.wal_status === "lost") return "the slot is lost";
  if (relay.wal_status === "unreserved") return "lost at the next checkpoint";
  if (isNumber(relay.safe_seconds)) return `safe for ${duration(relay.safe_seconds)}`;
  if (isNumber(relay.safe_bytes)) return `${bytes(relay.safe_bytes)} more is safe`;
  return isNumber(relay.retained_bytes) ? "no limit but the disk" : "";
}

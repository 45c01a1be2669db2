// What was published lately, as it happens; it can be held still to read it.

import { at, useAsked } from "./api.js";
import { between, bytes, clock, count, duration, shownKey } from "./format.js";
import { html, useState } from "./html.js";
import { nameOf, watched } from "./live.js";
import { hashOf } from "./router.js";
import { useStore } from "./store.js";
import { Asked, Empty, Section } from "./ui.js";

// `led`: whether an instance leads the relay, in whose memory they are; null: not known yet.
export function RecentEvents({ relay, rows, led, filters = false }) {
  const asked = useAsked(led ? at(relay, "/events") : null, { query: { limit: Math.min(rows, 100) } });
  const streamed = useStore(watched, ({ events }) => events);
  const [held, setHeld] = useState(null);
  const [filter, setFilter] = useState("");
  const aside = html`
    ${filters && html`<label class="hidden" for="event-filter">Filter by topic, type, id or key</label>
      <input id="event-filter" type="search" class="small-field" placeholder="Topic, type, id, key" value=${filter} onInput=${(event) => setFilter(event.target.value)} />`}
    <button type="button" class="button small" aria-pressed=${held ? "true" : "false"} onClick=${() => setHeld(held ? null : merged(streamed, asked.data))}>
      ${held ? "Go on" : "Hold still"}</button>`;
  return html`<${Section} title="Recent events" id="recent-events" aside=${aside}>
    ${led === false && html`<${Empty} title="No instance leads the relay">The last events are in the memory of the one that does.<//>`}
    ${led !== false && html`<${Asked} asked=${asked} what="Asking the relay">${(told) => {
      const all = held ?? merged(streamed, told);
      const shown = all.filter((each) => matches(each, filter)).slice(0, rows);
      if (!shown.length) return html`<${Empty} title=${filter ? "None of those that are kept" : "No event lately"}>The relay keeps the last ${count(told.kept)} in its memory.<//>`;
      return html`<${EventTable} relay=${relay} events=${shown} />`;
    }}<//>`}
  <//>`;
}

function merged(streamed, told) {
  const seen = new Set();
  return [...streamed, ...(told?.events ?? [])].filter((each) => {
    const name = nameOf(each);
    return !seen.has(name) && seen.add(name);
  });
}

function matches(event, filter) {
  const text = [event.topic, event.type, event.id, event.sink, shownKey(event.key)].join(" ").toLowerCase();
  return text.includes(filter.toLowerCase());
}

function EventTable({ relay, events }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table of recent events"><table class="plain nowrap">
    <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Type</th><th scope="col">Topic</th><th scope="col">Key</th><th scope="col" class="right">Took</th><th scope="col" class="right">Size</th></tr></thead>
    <tbody>${events.map((each) => html`<tr key=${nameOf(each)}>
      <td class="num" title=${each.committed_at ?? each.at}>${clock(each.published_at ?? each.at, { millis: true })}</td>
      <td>${each.id === null ? html`<span class="faint">none</span>` : html`<a href=${hashOf(["relays", relay, "events", each.id])} class="id">${each.id}</a>`}</td>
      <td class="cut" title=${each.type}>${each.type}</td>
      <td>${each.topic}${each.sink ? html` <span class="faint">${each.sink}</span>` : ""}</td>
      <td class="cut">${shownKey(each.key) || html`<span class="faint">–</span>`}</td>
      <td class="right num">${took(each)}</td>
      <td class="right num">${bytes(each.bytes)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

function took(event) {
  if (!event.acknowledged_at) return html`<span class="faint">no receipt yet</span>`;
  return duration(between(event.committed_at, event.acknowledged_at));
}

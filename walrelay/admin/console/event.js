// An event's life: written, committed, read, published, acknowledged, confirmed, and where it is now.

import { at, useAsked } from "./api.js";
import { absolute, between, clock, duration, moment, shownKey } from "./format.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { Payload } from "./payload.js";
import { hashOf } from "./router.js";
import { session, whyNot } from "./session.js";
import { useStore } from "./store.js";
import { Asked, Empty, Loading, Section, Time } from "./ui.js";

// `led`: whether an instance leads the relay, which remembers when; null: not known yet.
export function EventLife({ relay, id, led }) {
  const me = useStore(session, (value) => value.me);
  const refused = whyNot("operate", me);
  const rows = useAsked(refused ? null : at(relay, "/rows"), { query: { id, read_back: true } });
  const events = useAsked(led ? at(relay, "/events") : null, { query: { id, limit: 50 } });
  const row = rows.data?.rows[0] ?? null;
  const kept = (events.data?.events ?? []).filter((each) => each.id === id);
  return html`<div class="stack">
    <p class="crumbs"><a href=${hashOf(["relays", relay, "events"])}>← Events</a></p>
    <${Section} title="An event's life" id="life" aside=${html`<code class="id wrap">${id}</code>`}>
      ${(events.loading || rows.loading) && html`<${Loading} what="Looking in the table, the topics and the relay's memory" />`}
      ${refused && html`<p class="muted">Only what the relay remembers: ${refused}</p>`}
      ${rows.problem && html`<${Asked} asked=${rows} />`}
      ${!row && !kept.length && !events.loading && !rows.loading && !rows.problem && html`<${Empty} title="Nothing is known of this event">It is not in the table (a clean-up may have taken it), and the relay's memory does not go back so far.<//>`}
      ${(row || kept.length > 0) && html`<${Life} relay=${relay} row=${row} event=${kept[0] ?? null} />`}
      ${rows.data?.notices.map((each) => html`<p class="muted small">${each}</p>`)}
    <//>
    ${row && html`<${Places} row=${row} />`}
    ${kept.some((each) => each.payload !== undefined && each.payload !== null) && html`<${Section} title="Payload" id="payload"><${Payload} value=${kept[0].payload} /><//>`}
  </div>`;
}

function Life({ relay, row, event }) {
  const steps = [
    { name: "Written", at: row?.written_at, what: row ? html`${shownKey(row.type)} of ${shownKey(row.aggregate_type)} ${shownKey(row.aggregate_id)}` : "" },
    { name: "Committed", at: event?.committed_at ?? row?.committed_at, what: event?.commit_lsn ? html`at <code>${event.commit_lsn}</code>` : "" },
    { name: "Read from the WAL", at: event?.read_at, what: event?.position ? html`as <code>${event.position}</code>` : "" },
    { name: "Published", at: event?.published_at, what: event ? html`to <code>${event.topic}</code>${event.sink ? ` of ${event.sink}` : ""}${shownKey(event.key) ? html`, key <code>${shownKey(event.key)}</code>` : ""}` : "" },
    { name: "Acknowledged", at: event?.acknowledged_at, what: event?.acknowledged_at ? "by the broker: durable" : "" },
    { name: "Confirmed", at: event?.confirmed_at, what: event?.confirmed_at ? "to PostgreSQL: the WAL may go" : "" },
  ];
  const end = row ? ending(relay, row) : event?.acknowledged_at ? { level: "ok", text: html`It is in <code>${event.topic}</code>.` } : { level: "warning", text: "It waits for its receipt." };
  const past = row && ["published", "dropped"].includes(row.state);
  let last = null;
  return html`<ol class="life">
    ${steps.map((step) => {
      const date = moment(step.at);
      const after = between(last, step.at);
      last = step.at ?? last;
      const state = date ? "done" : past ? "unknown" : "open";
      return html`<li key=${step.name} class=${`life-${state}`}>
        <span class="life-mark"><${Icon} name=${date ? "ok" : "none"} label=${date ? "done" : past ? "not kept" : "not yet"} /></span>
        <div><p><b>${step.name}</b> <span class="muted">${step.what}</span></p>
          <p class="small num">${date ? html`<span title=${absolute(step.at)}>${clock(step.at, { millis: true })}</span>${after !== null && after >= 0 ? html` <span class="faint">+ ${duration(after)}</span>` : ""} <span class="faint">(<${Time} at=${step.at} />)</span>`
            : html`<span class="faint">${state === "unknown" ? "when is not kept: the relay's memory does not go back so far" : "not yet, or not known"}</span>`}</p></div></li>`;
    })}
    <li class=${`life-end life-end-${end.level}`}><span class="life-mark"><${Icon} name=${end.level} /></span><div>${row ? html`<p><b>${row.state.replaceAll("_", " ")}</b> <span class="muted">${row.why}</span></p>` : ""}<p>${end.text}</p></div></li>
  </ol>`;
}

function ending(relay, row) {
  if (row.dead_letter) {
    const { letter: number, topic } = row.dead_letter;
    if (number === null) return { level: "critical", text: html`It is a dead letter in <code>${topic}</code>.` };
    return { level: "critical", text: html`It is <a href=${hashOf(["relays", relay, "dead-letters", String(number)])}>dead letter ${number}</a>.` };
  }
  if (row.state === "published") {
    const [copy] = row.copies;
    return { level: "ok", text: copy ? html`It is in <code>${place(copy)}</code>.` : "Everything up to it is durable at the broker." };
  }
  return { level: row.state === "waiting" ? "warning" : "none", text: "" };
}

const place = (copy) => [copy.topic, copy.partition !== null && copy.partition !== undefined && `partition ${copy.partition}`, copy.offset !== null && copy.offset !== undefined && `offset ${copy.offset}`].filter(Boolean).join(", ");

function Places({ row }) {
  return html`<${Section} title="Where it is" id="places" aside=${html`<span class="muted">read back: ${row.read_back}</span>`}>
    ${row.copies.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Copies in the topics"><table class="plain">
      <thead><tr><th scope="col">Sink</th><th scope="col">Topic</th><th scope="col" class="right">Partition</th><th scope="col" class="right">Offset</th><th scope="col">Time</th><th scope="col">Delivery</th></tr></thead>
      <tbody>${row.copies.map((each, index) => html`<tr key=${index}><td>${each.sink}</td><td><code>${each.topic}</code></td><td class="right num">${each.partition ?? "–"}</td><td class="right num">${each.offset ?? "–"}</td>
        <td><${Time} at=${each.timestamp} /></td><td>${each.replayed ? "replayed" : index === 0 ? "first" : "again"}</td></tr>`)}</tbody></table></div>`
      : html`<${Empty} title=${row.read_back === "done" ? "Not found in the topics" : "Not looked for in the topics"}>${row.read_back === "done" ? "Retention or compaction may have taken it." : row.read_back}<//>`}
  <//>`;
}

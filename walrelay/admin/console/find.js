// Looks for rows of the outbox: by id, by what they are about, or by time.

import { at, useAsked } from "./api.js";
import { shownKey } from "./format.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { go, hashOf } from "./router.js";
import { session, whyNot } from "./session.js";
import { useStore } from "./store.js";
import { Asked, Empty, Section, Status, Time } from "./ui.js";

const LEVELS = { published: "ok", waiting: "warning", dead_letter: "critical", dropped: "none", unknown: "none" };
const BY = [["id", "id"], ["aggregate", "aggregate"], ["time", "time"]];

export function Find({ relay }) {
  const me = useStore(session, (value) => value.me);
  const [by, setBy] = useState("id");
  const [given, setGiven] = useState({});
  const [query, setQuery] = useState(null);
  const refused = whyNot("operate", me);
  const asked = useAsked(query === null ? null : at(relay, "/rows"), { query });
  const field = (name) => ({ value: given[name] ?? "", onInput: (event) => setGiven({ ...given, [name]: event.target.value }) });
  const submit = (event) => {
    event.preventDefault();
    if (by === "id" && given.id?.trim()) go(["relays", relay, "events", given.id.trim()]);
    if (by === "aggregate" && given.aggregate_type?.trim()) setQuery({ aggregate_type: given.aggregate_type.trim(), aggregate_id: given.aggregate_id?.trim(), limit: 100 });
    if (by === "time" && given.since) setQuery({ since: new Date(given.since).toISOString(), until: given.until ? new Date(given.until).toISOString() : undefined, limit: 100 });
  };
  const aside = html`<fieldset class="segmented"><legend class="hidden">Look for it by</legend>
    ${BY.map(([value, label]) => html`<label key=${value}><input type="radio" name="find-by" checked=${by === value} onChange=${() => setBy(value)} /><span>${label}</span></label>`)}</fieldset>`;
  return html`<${Section} title="Find an event" id="find" aside=${aside}>
    ${refused && by !== "id" ? html`<p class="muted">${refused}</p>` : html`<form class="filters" role="search" aria-label="Events" onSubmit=${submit}>
      ${by === "id" && html`<label class="search grow"><${Icon} name="search" /><span class="hidden">Id of the event</span><input type="search" data-search placeholder="Id of the event   /" ...${field("id")} /></label>`}
      ${by === "aggregate" && html`<label><span>Aggregate type</span><input data-search placeholder="order" required ...${field("aggregate_type")} /></label><label class="grow"><span>Aggregate id</span><input placeholder="42" ...${field("aggregate_id")} /></label>`}
      ${by === "time" && html`<label><span>Since</span><input type="datetime-local" data-search required ...${field("since")} /></label><label><span>until</span><input type="datetime-local" ...${field("until")} /></label>`}
      <button type="submit" class="button">Find</button>
    </form>`}
    ${query !== null && by !== "id" && html`<${Asked} asked=${asked} what="Looking in the table">${(told) => html`<${Rows} relay=${relay} told=${told} />`}<//>`}
  <//>`;
}

function Rows({ relay, told }) {
  if (!told.rows.length) return html`<${Empty} title="There is no such row">A clean-up may have taken it.<//>`;
  return html`${told.notices.map((each) => html`<p class="muted small">${each}</p>`)}
    <div class="scroll" tabindex="0" role="region" aria-label="Rows that were found"><table class="plain">
    <thead><tr>${["Event", "Type", "About", "Written", "State"].map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
    <tbody>${told.rows.map((each, index) => html`<tr key=${index}>
      <td><a class="id" href=${hashOf(["relays", relay, "events", shownKey(each.id)])}>${shownKey(each.id)}</a></td><td>${shownKey(each.type)}</td>
      <td>${shownKey(each.aggregate_type)} ${shownKey(each.aggregate_id)}</td><td><${Time} at=${each.written_at} /></td>
      <td><${RowState} row=${each} /></td></tr>`)}</tbody></table></div>
    ${told.next && html`<p class="muted small">There are more: look for a shorter time.</p>`}`;
}

export function RowState({ row }) {
  return html`<${Status} level=${LEVELS[row.state] ?? "none"} text=${row.state.replaceAll("_", " ")} /> ${row.why && html`<span class="muted">${row.why}</span>`}`;
}

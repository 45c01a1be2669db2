// All settings of a relay with their defaults; the API hides secrets.

import { at, useAsked } from "./api.js";
import { html, useState } from "./html.js";
import { session, whyNot } from "./session.js";
import { useStore } from "./store.js";
import { Asked, Copy, Empty, Section } from "./ui.js";

export function SettingsView({ relay }) {
  const me = useStore(session, (value) => value.me);
  const refused = whyNot("admin", me);
  const asked = useAsked(refused ? null : at(relay, "/settings"));
  const [filter, setFilter] = useState("");
  if (refused) return html`<${Section} title="Settings" id="settings"><${Empty} title="Not for this scope">${refused}<//><//>`;
  const aside = html`<label class="hidden" for="settings-filter">Filter settings</label>
    <input id="settings-filter" type="search" data-search class="small-field" placeholder="Filter   /" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
    ${asked.data && html`<${Copy} text=${JSON.stringify(asked.data, null, 2)} label="Copy as JSON" />`}`;
  return html`<${Section} title="Settings" id="settings" aside=${aside}>
    <${Asked} asked=${asked} what="Asking for settings">${(told) => {
      const rows = flat(told).filter(([name, value]) => `${name} ${value}`.toLowerCase().includes(filter.toLowerCase()));
      return rows.length
        ? html`<dl class="pairs settings">${rows.map(([name, value]) => html`<div key=${name}><dt><code>${name}</code></dt><dd><code class="wrap">${value}</code></dd></div>`)}</dl>`
        : html`<${Empty} title="No setting is called that" />`;
    }}<//>
  <//>`;
}

function flat(value, path = "") {
  if (value !== null && typeof value === "object" && Object.keys(value).length) {
    return Object.entries(value).flatMap(([name, each]) => flat(each, Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name));
  }
  return [[path, JSON.stringify(value)]];
}

// Who changed what by way of the API.

import { at, useAsked } from "./api.js";
import { html, useState } from "./html.js";
import { session, whyNot } from "./session.js";
import { useStore } from "./store.js";
import { Asked, Empty, Section, Time } from "./ui.js";

export function AuditLog({ relay }) {
  const me = useStore(session, (value) => value.me);
  const [pages, setPages] = useState([null]);
  const refused = whyNot("admin", me);
  const asked = useAsked(refused ? null : at(relay, "/audit-log"), { query: { limit: 50, before: pages.at(-1) } });
  if (refused) return html`<${Section} title="Audit log" id="audit"><${Empty} title="Not for this scope">${refused}<//><//>`;
  return html`<${Section} title="Audit log" id="audit">
    <${Asked} asked=${asked} what="Asking for the log">${(told) => (told.entries.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Table of the audit log"><table class="plain">
          <thead><tr>${["When", "Who", "From", "What", "Asked for", "Outcome"].map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
          <tbody>${told.entries.map((each) => html`<tr key=${each.id}>
            <td><${Time} at=${each.at} /></td><td>${each.caller} <span class="faint">${each.way}</span></td><td class="num">${each.address}</td>
            <td>${each.action}${each.job ? html` <span class="faint">job ${each.job}</span>` : ""}</td>
            <td><code class="wrap">${JSON.stringify(each.request)}</code></td><td>${each.outcome ?? html`<span class="faint">about to begin</span>`}</td>
          </tr>`)}</tbody></table></div>
        <div class="buttons">
          ${pages.length > 1 && html`<button type="button" class="button small" onClick=${() => setPages(pages.slice(0, -1))}>Later ones</button>`}
          ${told.next && html`<button type="button" class="button small" onClick=${() => setPages([...pages, told.next])}>Earlier ones</button>`}
        </div>`
      : html`<${Empty} title="Nothing was changed yet">Every change by way of the API is noted here before it is done.<//>`)}<//>
  <//>`;
}

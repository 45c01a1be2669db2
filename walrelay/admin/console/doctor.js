// What keeps the relay from starting, with fixes to copy.

import { at, useAsked } from "./api.js";
import { plural } from "./format.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Asked, Copy, Section } from "./ui.js";

const RANK = { problem: 0, warning: 1, ok: 2 };

export function Doctor({ relay }) {
  const asked = useAsked(at(relay, "/doctor"));
  const [all, setAll] = useState(true);
  const aside = html`<label class="check"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> what is well, too</label>
    <button type="button" class="button small" onClick=${asked.reload}>Examine again</button>`;
  return html`<${Section} title="Doctor" id="doctor" aside=${aside}>
    <${Asked} asked=${asked} what="Examining database and broker">${(told) => html`<${Findings} told=${told} all=${all} />`}<//>
  <//>`;
}

function Findings({ told, all }) {
  const sorted = [...told.findings].sort((a, b) => RANK[a.verdict] - RANK[b.verdict]);
  const wrong = sorted.filter((each) => each.verdict !== "ok");
  return html`<p class="lead"><${Icon} name=${told.ready ? (wrong.length ? "warning" : "ok") : "critical"} />
      ${told.ready ? "The relay can start" : "The relay cannot start"}${wrong.length ? `; ${plural(wrong.length, "thing")} to look at` : ""}.</p>
    <ul class="findings">${(all ? sorted : wrong).map((each, index) => html`<${Finding} key=${index} finding=${each} />`)}</ul>`;
}

export function Finding({ finding }) {
  const level = { ok: "ok", warning: "warning", problem: "critical" }[finding.verdict];
  return html`<li class="finding">
    <${Icon} name=${level} label=${finding.verdict} />
    <div><p><b>${finding.subject}</b> <span class="muted">${finding.detail}</span></p>
      ${finding.fix && html`<div class="fix"><pre>${finding.fix}</pre><${Copy} text=${finding.fix} /></div>`}</div>
  </li>`;
}

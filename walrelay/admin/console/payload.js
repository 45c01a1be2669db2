// What an event holds: laid out, as it is, or in base64; its headers; a message whole. Always as text.

import { bytes, shownKey } from "./format.js";
import { html, useState } from "./html.js";
import { isBase64, isStructure, pretty } from "./json.js";
import { Copy } from "./ui.js";

const MOST = 200_000; // characters that are shown; all of them are copied

function encoded(text) {
  const raw = new TextEncoder().encode(text);
  let binary = "";
  for (let i = 0; i < raw.length; i += 0x8000) binary += String.fromCharCode(...raw.subarray(i, i + 0x8000));
  return btoa(binary);
}

export function Payload({ value, label = "Payload" }) {
  const structured = isStructure(value);
  const [form, setForm] = useState(null);
  if (value === null || value === undefined) return html`<p class="muted">${label}: none (null).</p>`;
  const forms = isBase64(value) ? ["base64"] : structured ? ["pretty", "raw", "base64"] : ["raw", "base64"];
  const chosen = forms.includes(form) ? form : forms[0];
  const text = isBase64(value) ? value.base64 : chosen === "pretty" ? pretty(value) : chosen === "base64" ? encoded(String(value)) : String(value);
  const size = isBase64(value) ? Math.floor((value.base64.length * 3) / 4) : new TextEncoder().encode(String(value)).length;
  return html`<div class="payload">
    <div class="payload-head"><b>${label}</b> <span class="muted num">${bytes(size)}</span><span class="grow"></span>
      <fieldset class="segmented small-segments"><legend class="hidden">Form of ${label}</legend>
        ${forms.map((each) => html`<label key=${each}><input type="radio" name=${`form of ${label}`} checked=${chosen === each} onChange=${() => setForm(each)} /><span>${each}</span></label>`)}
      </fieldset>
      <${Copy} text=${text} />
    </div>
    <pre class="code" tabindex="0" role="region" aria-label=${`${label} as text`}>${text.slice(0, MOST)}${text.length > MOST ? "\n… (copy it to see all)" : ""}</pre>
  </div>`;
}

export function Headers({ headers }) {
  const listed = Array.isArray(headers) ? headers : Object.entries(headers ?? {});
  if (!listed.length) return html`<p class="muted">No headers.</p>`;
  return html`<table class="plain headers"><thead><tr><th scope="col">Header</th><th scope="col">Value</th></tr></thead>
    <tbody>${listed.map(([name, value], index) => html`<tr key=${index}><th scope="row"><code>${name}</code></th><td><code class="wrap">${value === null ? "null" : shownKey(value)}</code></td></tr>`)}</tbody></table>`;
}

export function MessageView({ message, title = "Message" }) {
  const { topic, key, value, headers, timestamp_ms: timestamp, partition } = message;
  return html`<div class="message">
    <dl class="pairs">
      <div><dt>Topic</dt><dd><code>${shownKey(topic)}</code>${message.sink ? html` <span class="muted">at ${message.sink}</span>` : ""}</dd></div>
      <div><dt>Key</dt><dd><code class="wrap">${shownKey(key) || "none"}</code></dd></div>
      ${partition !== undefined && html`<div><dt>Partition</dt><dd class="num">${partition}</dd></div>`}
      ${timestamp !== undefined && timestamp !== null && html`<div><dt>Timestamp</dt><dd class="num">${new Date(timestamp).toISOString()}</dd></div>`}
    </dl>
    <${Payload} value=${value} label=${`${title}: value`} />
    <${Headers} headers=${headers} />
  </div>`;
}

// Tries the routing rules on a record: which one matches, why others do not, and the messages.

import { ask, at } from "./api.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { MessageView } from "./payload.js";
import { Action, Empty, ProblemBox, Section, useDoing } from "./ui.js";

const EXAMPLE = `{
  "id": "1",
  "aggregate_type": "order",
  "aggregate_id": "42",
  "type": "OrderPlaced",
  "payload": {"total": 12.5},
  "headers": {"tenant": "north"}
}`;

export function RouteTest({ relay }) {
  const [text, setText] = useState(EXAMPLE);
  const [results, setResults] = useState(null);
  const doing = useDoing();
  const wrong = invalid(text);
  const test = async () => {
    const records = Array.isArray(JSON.parse(text)) ? text : `[${text}]`;  // not read into numbers, which have 53 bits
    const done = await doing.run(() => ask(at(relay, "/route-test"), { method: "POST", text: `{"records": ${records}}` }));
    if (done) setResults(done.results);
  };
  return html`<div class="columns">
    <${Section} title="A record" id="route-record">
      <label for="record">JSON, as <code>walrelay tail</code> prints it; one or an array of them</label>
      <textarea id="record" class="code" data-search rows="16" spellcheck="false" value=${text} aria-invalid=${wrong ? "true" : undefined} aria-describedby="record-note"
        onInput=${(event) => setText(event.target.value)}></textarea>
      <p id="record-note" class=${wrong ? "field-error" : "field-note"}>${wrong || "Only id is needed. Nothing is published or stored."}</p>
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons"><${Action} scope="operate" kind="primary" disabled=${Boolean(wrong) || doing.busy} why=${wrong} onClick=${test}>Try the rules<//></div>
    <//>
    <${Section} title="What becomes of it" id="route-result">
      ${results ? html`<div aria-live="polite">${results.map((each, index) => html`<${Result} key=${index} result=${each} />`)}</div>`
        : html`<${Empty} title="Not tried yet">Rules are asked in the order of the settings file.<//>`}
    <//>
  </div>`;
}

function invalid(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is not JSON yet: ${error.message}.`;
  }
}

function Result({ result }) {
  return html`<div class="trial">
    <h3>Record ${result.id}</h3>
    ${result.rules.length > 0 && html`<ol class="rules">${result.rules.map((each, index) => html`<li key=${index} class=${each.matches ? "rule-matches" : ""}>
      <${Icon} name=${each.matches ? "ok" : "none"} label=${each.matches ? "matches" : "does not match"} /> <b>${each.rule}</b>${each.why ? html` <span class="muted">${each.why}</span>` : ""}</li>`)}</ol>`}
    ${!result.rules.length && html`<p class="muted">There are no rules: topic, key and value are those of the section <code>route</code>.</p>`}
    ${result.refused && html`<${ProblemBox} problem=${{ message: `it is refused: ${result.refused}` }} />`}
    ${result.dropped && html`<p><${Icon} name="none" /> It is dropped: a rule wants no message of it.</p>`}
    ${result.messages.map((each, index) => html`<${MessageView} key=${index} message=${each} title=${`Message ${index + 1}`} />`)}
  </div>`;
}

// One dead letter: why it was refused, what it holds, how it was edited, what is done with it.

import { ask, at, useAsked } from "./api.js";
import { BulkDialog } from "./bulk.js";
import { Diff } from "./diffview.js";
import { Editor } from "./edit.js";
import { plural, shownKey } from "./format.js";
import { html, useState } from "./html.js";
import { editable } from "./json.js";
import { Headers, MessageView, Payload } from "./payload.js";
import { hashOf, route } from "./router.js";
import { session, whyNot } from "./session.js";
import { useStore } from "./store.js";
import { Action, Asked, Empty, ProblemBox, Section, sentence, tell, Time, useDoing } from "./ui.js";

export function Letter({ relay, letter, onDone }) {
  const { query } = useStore(route);
  const me = useStore(session, (value) => value.me);
  const refused = whyNot("operate", me);
  const asked = useAsked(refused ? null : at(relay, `/dead-letters/${encodeURIComponent(letter)}`));
  const back = hashOf(["relays", relay, "dead-letters"], query);
  return html`<div class="stack">
    <p class="crumbs"><a href=${back}>← Dead letters</a></p>
    ${refused
      ? html`<${Section} title=${`Dead letter ${letter}`} id="letter"><${Empty} title="Not for this scope">It holds an event. ${refused}<//><//>`
      : html`<${Asked} asked=${asked} what="Asking for the dead letter">${(told) => html`<${Whole} relay=${relay} told=${told} again=${() => (asked.reload(), onDone())} />`}<//>`}
  </div>`;
}

function Whole({ relay, told, again }) {
  const [editing, setEditing] = useState(false);
  const [bulk, setBulk] = useState(null);
  const [notices, setNotices] = useState([]);
  const taking = useDoing();
  const open = told.status === "waiting" || told.status === "blocked";
  const why = !open ? `It is ${told.status}.` : told.record ? "" : "It has no record that could be edited.";
  const record = told.edited_record ?? told.record;
  const takeBack = () => taking.run(async () => {
    await ask(at(relay, `/dead-letters/${told.letter}/edit`), { method: "DELETE" });
    tell("The record is what it was.");
    setNotices([]);
    again();
  });
  return html`
    <${Section} title=${`Dead letter ${told.letter}`} id="letter" aside=${html`
      <${Action} scope="operate" kind="small" disabled=${Boolean(why)} why=${why} onClick=${() => setEditing(true)}>Edit …<//>
      <${Action} scope="operate" kind="small primary" disabled=${told.status === "replayed"} why="It is replayed." onClick=${() => setBulk("replay")}>Replay …<//>
      <${Action} scope="admin" kind="small" disabled=${!open} why=${`It is ${told.status}.`} onClick=${() => setBulk("discard")}>Discard …<//>`}>
      <p class="reason"><b>${told.error}</b>${told.reason ? html` <span>${told.reason}</span>` : ""}</p>
      <dl class="pairs two">
        <div><dt>Status</dt><dd><span class=${`tag tag-${told.status}`}>${told.status}</span>${told.closed_at ? html` <span class="muted">by ${told.closed_by} <${Time} at=${told.closed_at} />${told.closed_why ? `: ${told.closed_why}` : ""}</span>` : ""}</dd></div>
        <div><dt>Record</dt><dd><a class="id" href=${hashOf(["relays", relay, "events", told.id])}>${told.id}</a> <span class="muted">its life</span></dd></div>
        <div><dt>Position</dt><dd class="num"><code>${told.position}</code></dd></div>
        <div><dt>Topic</dt><dd><code>${told.topic ?? "none"}</code> <span class="muted">${told.sink}</span></dd></div>
        <div><dt>Key</dt><dd><code class="wrap">${shownKey(told.key) || "none"}</code></dd></div>
        <div><dt>Refused</dt><dd>${plural(told.attempts, "time")}, first <${Time} at=${told.first_at} />, last <${Time} at=${told.last_at} /></dd></div>
      </dl>
      ${taking.problem && html`<${ProblemBox} problem=${taking.problem} />`}
    <//>
    ${editing && html`<${Editor} relay=${relay} letter=${told} onClose=${() => setEditing(false)} onSaved=${(said) => (setEditing(false), setNotices(said), again())} />`}
    ${!editing && told.edited && told.edited_record && html`<${Section} title="The edit" id="edit" aside=${html`<${Action} scope="operate" kind="small" disabled=${!open || taking.busy} why=${`It is ${told.status}.`} onClick=${takeBack}>Take it back<//>`}>
      <p class="muted">Edited by <b>${told.edited_by}</b> <${Time} at=${told.edited_at} />${told.edit_reason ? `: ${told.edit_reason}` : ""}. A replay publishes it as edited.</p>
      ${notices.map((each) => html`<p class="reason" key=${each}>${sentence(each)}</p>`)}
      <${Diff} before=${editable(told.record)} after=${editable(told.edited_record)} />
    <//>`}
    ${!editing && record && html`<${Section} title=${told.edited ? "The record, as edited" : "The record"} id="record"><${RecordView} record=${record} /><//>`}
    ${!editing && told.message && html`<${Section} title="The message that was refused" id="message"><${MessageView} message=${told.message} /><//>`}
    ${told.raw !== null && told.raw !== undefined && html`<${Section} title="What could not be read" id="raw"><${Payload} value=${told.raw} label="Bytes" /><//>`}
    ${bulk && html`<${BulkDialog} relay=${relay} what=${bulk} select=${{ ids: [told.letter] }} onDone=${again} onClose=${() => setBulk(null)} />`}`;
}

export function RecordView({ record }) {
  const { payload, headers, columns, ...fields } = record;
  return html`<dl class="pairs two">${Object.entries(fields).map(([name, value]) => html`<div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd><code class="wrap">${value === null ? "null" : typeof value === "object" ? shownKey(value) : String(value)}</code></dd></div>`)}</dl>
    <${Payload} value=${payload} label="Payload" />
    ${headers && html`<${HeaderText} text=${headers} />`}
    ${columns && html`<${Headers} headers=${columns} />`}`;
}

// The headers of a row are JSON in a text.
function HeaderText({ text }) {
  try {
    const parsed = typeof text === "string" ? JSON.parse(text) : text;
    if (parsed && typeof parsed === "object") {
      return html`<${Headers} headers=${Object.entries(parsed).map(([name, value]) => [name, typeof value === "string" || value === null ? value : JSON.stringify(value)])} />`;
    }
  } catch {
    // It is shown as it is.
  }
  return html`<${Payload} value=${text} label="Headers" />`;
}

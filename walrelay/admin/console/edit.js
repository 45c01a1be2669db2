// Correcting a record: the text, what it changes, and why. The original stays.

import { ask, at } from "./api.js";
import { Diff } from "./diffview.js";
import { html, useMemo, useState } from "./html.js";
import { editable, edited } from "./json.js";
import { ProblemBox, Section, tell, useDoing } from "./ui.js";

export function Editor({ relay, letter, onClose, onSaved }) {
  const original = letter.record;
  const [text, setText] = useState(() => editable(letter.edited_record ?? original));
  const [reason, setReason] = useState(letter.edit_reason ?? "");
  const doing = useDoing();
  const before = useMemo(() => editable(original), [original]);
  const { record, wrong } = useMemo(() => read(original, text), [original, text]);
  const after = record ? editable(record) : before;
  const same = record !== null && after === before;
  const save = async (event) => {
    event.preventDefault();
    const done = await doing.run(() => ask(at(relay, `/dead-letters/${letter.letter}/edit`), { method: "PUT", body: { record, reason: reason.trim() } }));
    if (done) {
      tell("The edit is stored. A replay publishes it.");
      onSaved(done.becomes?.notices ?? []);
    }
  };
  return html`<form onSubmit=${save}><${Section} title="Edit the record" id="editor">
    <p class="muted">Payload and headers are laid out; what you do not touch stays as it was, to the byte. Id and position cannot be edited: they say which event it is.</p>
    <label for="edit-record" class="hidden">The record as JSON</label>
    <textarea id="edit-record" class="code" rows=${Math.min(24, text.split("\n").length + 1)} spellcheck="false" autofocus value=${text}
      aria-invalid=${wrong ? "true" : undefined} aria-describedby="edit-note" onInput=${(event) => setText(event.target.value)}></textarea>
    <p id="edit-note" class=${wrong ? "field-error" : "field-note"} role=${wrong ? "alert" : undefined}>${wrong || "This is JSON."}</p>
    <h3>What changes</h3>
    <${Diff} before=${before} after=${after} />
    <label for="edit-reason">Reason</label>
    <input id="edit-reason" maxlength="1000" value=${reason} placeholder="the amount had a comma" onInput=${(event) => setReason(event.target.value)} />
    ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
    <div class="buttons end">
      <button type="button" class="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class="button primary" disabled=${Boolean(wrong) || same || !reason.trim() || doing.busy}>Store the edit</button>
    </div>
  <//></form>`;
}

function read(original, text) {
  try {
    return { record: edited(original, text), wrong: "" };
  } catch (error) {
    return { record: null, wrong: `This is not a record yet: ${error.message}.` };
  }
}

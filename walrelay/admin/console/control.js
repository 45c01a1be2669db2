// Resume, restart and drain: what happens is said before it does.

import { ask, at } from "./api.js";
import { bytes, count, duration, isNumber, since } from "./format.js";
import { html, useState } from "./html.js";
import { Dialog, ProblemBox, tell, useDoing } from "./ui.js";

export function ResumeDialog({ relay, row, onClose }) {
  const doing = useDoing();
  const submit = async (event) => {
    event.preventDefault();
    const done = await doing.run(() => ask(at(relay, "/resume"), { method: "POST", body: {} }));
    if (done) {
      tell(done.disobeyed || (done.was_paused ? `${relay} is resumed.` : `${relay} was not paused.`));
      onClose();
    }
  };
  const { by, reason, at: from } = row?.paused ?? {};
  return html`<${Dialog} title=${`Resume ${relay}`} onClose=${onClose}>
    <p>Paused by <b>${by ?? "an unknown role"}</b>${from ? ` since ${since(from)}` : ""}${reason ? html`: “${reason}”` : ""}.</p>
    <p>The relay publishes what has waited, in order: ${bytes(row?.retained_bytes)} of WAL are held. Consumers get the backlog as fast as they take it.</p>
    <form onSubmit=${submit}>
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons end">
        <button type="button" class="button" onClick=${onClose}>Leave it paused</button>
        <button type="submit" class="button primary" autofocus disabled=${doing.busy}>${doing.busy ? "Resuming …" : "Resume"}</button>
      </div>
    </form>
  <//>`;
}

const CHANGES = {
  restart: {
    title: "Restart",
    does: "The instance that leads settles what is under way, ends its stream and begins again: settings of the broker, the catalog and the position are read anew. Nothing is lost or repeated. The process stays.",
    button: "Restart",
  },
  drain: {
    title: "Drain",
    does: "The relay publishes everything that is committed by now, confirms it, and is then paused: for a maintenance of broker or consumers that is to find nothing under way.",
    button: "Drain and pause",
  },
};

export function ChangeDialog({ relay, row, what, onClose }) {
  const { title, does, button } = CHANGES[what];
  const [reason, setReason] = useState("");
  const doing = useDoing();
  const submit = async (event) => {
    event.preventDefault();
    const body = what === "drain" ? { then_pause: true, reason: reason.trim() || "drained" } : {};
    const done = await doing.run(() => ask(at(relay, `/${what}`), { method: "POST", body }));
    if (done) {
      tell(done.job ? `Job ${done.job} is at work: ${what}.` : `There was nothing to ${what}.`);
      onClose();
    }
  };
  return html`<${Dialog} title=${`${title} ${relay}`} onClose=${onClose}>
    <p>${does}</p>
    <dl class="figures compact">
      <div class="figure"><dt>In flight</dt><dd class="num">${count(row?.in_flight)}</dd></div>
      <div class="figure"><dt>Behind</dt><dd class="num">${isNumber(row?.lag_seconds) ? duration(row.lag_seconds) : "–"}</dd><dd class="figure-note">${bytes(row?.lag_bytes)} of WAL</dd></div>
      <div class="figure"><dt>WAL held</dt><dd class="num">${bytes(row?.retained_bytes)}</dd></div>
    </dl>
    <form onSubmit=${submit}>
      ${what === "drain" && html`<label for="drain-reason">Reason</label>
        <input id="drain-reason" maxlength="500" autofocus value=${reason} placeholder="the warehouse is upgraded" onInput=${(event) => setReason(event.target.value)} />`}
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary" disabled=${doing.busy}>${doing.busy ? "Asking …" : button}</button>
      </div>
    </form>
  <//>`;
}

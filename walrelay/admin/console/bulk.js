// Replaying or discarding dead letters: first how many it would be, then the job and its progress.

import { ask, at } from "./api.js";
import { count, plural } from "./format.js";
import { html, useEffect, useState } from "./html.js";
import { Dialog, Loading, ProblemBox, Status, tell, useDoing } from "./ui.js";

const POLL = 500; // milliseconds

export function BulkDialog({ relay, what, select, onDone, onClose }) {
  const path = at(relay, `/dead-letters/${what}`);
  const [matched, setMatched] = useState(null);
  const [reason, setReason] = useState("");
  const [job, setJob] = useState(null);
  const counting = useDoing();
  const doing = useDoing();
  const replays = what === "replay";

  useEffect(() => {
    counting.run(async () => setMatched((await ask(path, { method: "POST", body: { select, dry_run: true, ...(replays ? {} : { reason: "counting" }) } })).matched));
  }, []);

  const submit = async (event) => {
    event.preventDefault();
    const started = await doing.run(() => ask(path, { method: "POST", body: { select, ...(replays ? {} : { reason: reason.trim() }) } }));
    if (!started) return;
    if (started.job === null) {
      tell("None was left to do it with.");
      finish();
    } else setJob(started.job);
  };
  const finish = () => {
    onDone();
    onClose();
  };

  const title = `${replays ? "Replay" : "Discard"} ${matched === null ? "dead letters" : plural(matched, "dead letter")}`;
  if (job !== null) return html`<${Dialog} title=${title} onClose=${finish}><${Progress} relay=${relay} job=${job} onClose=${finish} /><//>`;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${matched === null && !counting.problem && html`<${Loading} what="Counting" />`}
    ${counting.problem && html`<${ProblemBox} problem=${counting.problem} />`}
    ${matched === 0 && html`<p>None matches that can be ${replays ? "replayed" : "discarded"}.</p><div class="buttons end"><button type="button" class="button" onClick=${onClose}>Close</button></div>`}
    ${matched > 0 && html`<form onSubmit=${submit}>
      <p>${replays
        ? html`<b class="num">${count(matched)}</b> will be published again, by today's settings and as edited, with those that are blocked behind them. Consumers see the header <code>replayed</code>.`
        : html`<b class="num">${count(matched)}</b> will not be published any more. They stay in the table, with who, when and why. This cannot be taken back.`}</p>
      ${!replays && html`<label for="discard-reason">Reason</label>
        <input id="discard-reason" autofocus maxlength="1000" required value=${reason} onInput=${(event) => setReason(event.target.value)} placeholder="fixed by hand in the warehouse" />`}
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${`button ${replays ? "primary" : "danger"}`} autofocus=${replays} disabled=${doing.busy || (!replays && !reason.trim())}>
          ${replays ? "Replay" : "Discard"} ${count(matched)}</button>
      </div>
    </form>`}
  <//>`;
}

function Progress({ relay, job, onClose }) {
  const [told, setTold] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let timer = 0;
    let over = false;
    const look = async () => {
      try {
        const found = await ask(at(relay, `/jobs/${job}`));
        if (over) return;
        setTold(found);
        setProblem(null);
        if (found.state === "running") timer = setTimeout(look, POLL);
      } catch (error) {
        if (over) return;
        setProblem(error);
        timer = setTimeout(look, 4 * POLL);
      }
    };
    look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [job]);
  const done = told ? Object.values(told.counts).reduce((sum, each) => sum + each, 0) : 0;
  const level = { running: "running", done: "ok", failed: "critical", interrupted: "warning" }[told?.state] ?? "none";
  return html`<p><${Status} level=${level} text=${told?.state ?? "begins"} /> <span class="muted">job ${job}</span></p>
    <progress class="wide-progress" max=${told?.total || 1} value=${told ? Math.min(done, told.total) : 0} aria-label="Progress"></progress>
    <p class="num" role="status">${told && told.state !== "running" ? outcomes(told.counts) : `${count(done)} of ${count(told?.total ?? 0)}`}</p>
    ${told?.notes?.length > 0 && html`<ul class="notes">${told.notes.map((each, index) => html`<li key=${index}>${each}</li>`)}</ul>`}
    ${told?.error && html`<${ProblemBox} problem=${{ message: told.error, hint: told.hint }} />`}
    ${problem && html`<${ProblemBox} problem=${problem} />`}
    <div class="buttons end"><button type="button" class="button primary" autofocus onClick=${onClose}>${told?.state === "running" ? "Let it work" : "Close"}</button></div>`;
}

function outcomes(counts) {
  const parts = Object.entries(counts).map(([outcome, number]) => `${count(number)} ${outcome.replaceAll("_", " ")}`);
  return parts.length ? parts.join(", ") : "nothing was to be done";
}

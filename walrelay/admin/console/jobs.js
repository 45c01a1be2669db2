// What was asked for by way of the API, and how far it is.

import { ask, at, useAsked } from "./api.js";
import { Asking } from "./asking.js";
import { bytes, count, plural } from "./format.js";
import { html, useState } from "./html.js";
import { watched } from "./live.js";
import { useStore } from "./store.js";
import { Action, Asked, Empty, ProblemBox, Section, Status, Time, useDoing } from "./ui.js";

const LEVELS = { running: "running", done: "ok", failed: "critical", interrupted: "warning" };
const NAMES = {
  "dead_letters.replay": "replay dead letters", "dead_letters.discard": "discard dead letters",
  restart: "restart", drain: "drain", replay: "replay", audit: "audit", cleanup: "clean-up",
};

const TOLD = new Set(["replay", "audit", "cleanup"]);

export function useJobs(relay) {
  const asked = useAsked(at(relay, "/jobs"), { every: 5 });
  const streamed = useStore(watched, ({ jobs }) => jobs);
  const newer = new Map((streamed ?? []).map((each) => [each.id, each]));
  const listed = asked.data?.jobs ?? [];
  const known = new Set(listed.map((each) => each.id));
  const jobs = [...[...newer.values()].filter((each) => !known.has(each.id)), ...listed.map((each) => latest(each, newer.get(each.id)))];
  return { asked, jobs: jobs.sort((a, b) => b.id - a.id) };
}

function latest(asked, streamed) {
  return streamed && new Date(streamed.changed_at) >= new Date(asked.changed_at) && asked.state === "running" ? streamed : asked;
}

// On the relay's first view only what is at work.
export function RunningJobs({ relay }) {
  const { jobs } = useJobs(relay);
  const running = jobs.filter((each) => each.state === "running");
  if (!running.length) return null;
  return html`<${Section} title="At work" id="running-jobs"><${JobTable} relay=${relay} jobs=${running} /><//>`;
}

export function Jobs({ relay }) {
  const { asked, jobs } = useJobs(relay);
  return html`<${Section} title="Jobs" id="jobs" aside=${html`<${Asking} relay=${relay} />`}>
    <${Asked} asked=${asked} what="Asking for jobs">${() => (jobs.length
      ? html`<${JobTable} relay=${relay} jobs=${jobs} />`
      : html`<${Empty} title="Nothing was asked for yet">Replays, discards, restarts and audits are here with their progress.<//>`)}<//>
  <//>`;
}

function JobTable({ relay, jobs }) {
  return html`<table class="relays jobs" role="table" aria-label="Jobs, the latest first">
    <thead role="rowgroup"><tr role="row">${["Job", "State", "Progress", "By", "Begun"].map((each) => html`<th scope="col" role="columnheader">${each}</th>`)}</tr></thead>
    <tbody role="rowgroup">${jobs.map((each) => html`<${JobRow} key=${each.id} relay=${relay} job=${each} />`)}</tbody>
  </table>`;
}

function JobRow({ relay, job }) {
  const doing = useDoing();
  const [result, setResult] = useState(null);
  const found = useAsked(result ? at(relay, `/jobs/${job.id}`) : null);
  const cancel = () => doing.run(() => ask(at(relay, `/jobs/${job.id}/cancel`), { method: "POST", body: {} }));
  const shown = job.action === "drain" ? bytes : count;
  const [open, setOpen] = useState(false);
  const done = Object.values(job.counts).reduce((sum, each) => sum + each, 0);
  const counts = Object.entries(job.counts).map(([outcome, number]) => `${shown(number)} ${outcome.replaceAll("_", " ")}`).join(", ");
  return html`<tr role="row">
    <th scope="row" role="rowheader" data-label="Job">${NAMES[job.action] ?? job.action}<span class="sub">no. ${job.id}</span></th>
    <td role="cell" data-label="State"><${Status} level=${LEVELS[job.state]} text=${job.state} />
      ${job.state === "running" && html`<${Action} scope="operate" kind="small" disabled=${doing.busy} onClick=${cancel}>Cancel<span class="hidden"> job ${job.id}</span><//>`}
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      ${job.state === "interrupted" && html`<span class="sub">its process ended; ask again</span>`}</td>
    <td role="cell" data-label="Progress" class="progress-cell">
      ${job.total > 0 && html`<progress max=${job.total} value=${Math.min(done, job.total)} aria-label=${`Progress of job ${job.id}`}></progress>`}
      <span class="num small">${job.total > 0 ? `${shown(done)} of ${shown(job.total)}` : ""}${counts ? ` · ${counts}` : ""}</span>
      ${job.error && html`<${ProblemBox} problem=${{ message: job.error, hint: job.hint }} />`}
      ${job.notes?.length > 0 && html` <button type="button" class="button small" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${plural(job.notes.length, "note")}</button>
        ${open && html`<ul class="notes">${job.notes.map((each, index) => html`<li key=${index}>${each}</li>`)}</ul>`}`}
      ${job.state === "done" && TOLD.has(job.action) && html` <button type="button" class="button small" aria-expanded=${result ? "true" : "false"} onClick=${() => setResult(!result)}>Result</button>`}
      ${result && html`<${Asked} asked=${found} what="Asking for the result">${(told) => html`<pre class="code" tabindex="0" role="region" aria-label=${`Result of job ${job.id}`}>${JSON.stringify(told.result, null, 2)}</pre>`}<//>`}
    </td>
    <td role="cell" data-label="By">${job.caller}</td>
    <td role="cell" data-label="Begun"><${Time} at=${job.begun_at} /></td>
  </tr>`;
}

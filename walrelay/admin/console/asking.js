// Jobs about the outbox as a table: rows published again, the topics compared with it, old rows deleted.

import { ask, at } from "./api.js";
import { count } from "./format.js";
import { html, useState } from "./html.js";
import { Action, Dialog, ProblemBox, tell, useDoing } from "./ui.js";

const DAY = 86_400;

const moment = (text) => (text ? new Date(text).toISOString() : undefined);
const words = (text) => (text ?? "").split(/[\s,]+/).filter(Boolean);

// Each makes the body of its request of what was given; null: not enough was said.
const KINDS = {
  replay: {
    title: "Replay rows", scope: "operate", counts: true, button: "Replay",
    about: "Rows of the table are published again, with their ids and a header that says so. Rows that may not be confirmed, and dead letters, are left out. All conditions count together.",
    fields: [["since", "Committed since", "datetime-local"], ["until", "until", "datetime-local"], ["aggregates", "Aggregates", "text", "order or order:42"], ["types", "Types", "text", "OrderPlaced"], ["ids", "Ids", "text", ""]],
    body(given) {
      const select = { since: moment(given.since), until: moment(given.until), aggregates: words(given.aggregates), types: words(given.types), ids: words(given.ids) };
      const said = Object.fromEntries(Object.entries(select).filter(([, value]) => (Array.isArray(value) ? value.length : value)));
      return Object.keys(said).length ? { select: said } : null;
    },
  },
  audit: {
    title: "Audit", scope: "operate", button: "Audit",
    about: "Compares the table with the topics: what is missing, repeated or out of order. The last hour, if no time is given. The job has the findings.",
    fields: [["since", "Since", "datetime-local"], ["until", "until", "datetime-local"]],
    body: (given) => ({ since: moment(given.since), until: moment(given.until) }),
  },
  cleanup: {
    title: "Clean up", scope: "admin", trial: true, button: "Delete them", danger: true,
    about: "Deletes rows that are published, confirmed and old, in small parts beside the writers. This cannot be taken back; count first.",
    fields: [["days", "Older than, in days", "number", "as retention of the settings says"]],
    body: (given) => (given.days ? { older_than_seconds: Number(given.days) * DAY } : {}),
  },
};

export function Asking({ relay }) {
  const [kind, setKind] = useState(null);
  return html`${Object.entries(KINDS).map(([name, { title, scope }]) => html`<${Action} key=${name} scope=${scope} kind="small" onClick=${() => setKind(name)}>${title} …<//>`)}
    ${kind && html`<${AskingDialog} relay=${relay} kind=${kind} onClose=${() => setKind(null)} />`}`;
}

function AskingDialog({ relay, kind, onClose }) {
  const { title, about, fields, body, button, counts, trial, danger } = KINDS[kind];
  const [given, setGiven] = useState({});
  const [matched, setMatched] = useState(null);
  const doing = useDoing();
  const request = body(given);
  const post = (more) => ask(at(relay, `/${kind}`), { method: "POST", body: { ...request, ...more } });
  const change = (name, value) => {
    setMatched(null);
    setGiven({ ...given, [name]: value });
  };
  const begin = (more) => doing.run(async () => {
    const { job } = await post(more);
    tell(job === null ? "There was nothing to do." : `Job ${job} has begun.`);
    onClose();
  });
  const submit = (event) => {
    event.preventDefault();
    if (!request) return;
    if (counts && matched === null) doing.run(async () => setMatched((await post({ dry_run: true })).matched));
    else begin({});
  };
  const label = counts && matched === null ? "Count them" : counts ? `${button} ${count(matched)}` : button;
  return html`<${Dialog} title=${`${title}: ${relay}`} onClose=${onClose}>
    <p>${about}</p>
    <form onSubmit=${submit}>
      ${fields.map(([name, text, type, hint], index) => html`<label key=${name} for=${`asking-${name}`}>${text}</label>
        <input id=${`asking-${name}`} type=${type} min=${type === "number" ? "0" : undefined} step="any" placeholder=${hint} autofocus=${index === 0} value=${given[name] ?? ""} onInput=${(event) => change(name, event.target.value)} />`)}
      ${!request && html`<p class="field-note">Say which rows by one condition at least.</p>`}
      ${matched !== null && html`<p role="status" class="num">${count(matched)} rows match.</p>`}
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        ${trial && html`<button type="button" class="button" disabled=${doing.busy} onClick=${() => begin({ dry_run: true })}>Count them</button>`}
        <button type="submit" class=${`button ${danger ? "danger" : "primary"}`} disabled=${doing.busy || !request || matched === 0}>${label}</button>
      </div>
    </form>
  <//>`;
}

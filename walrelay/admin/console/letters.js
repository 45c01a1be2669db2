// Dead letters: what there is, by error and topic; search; pages of 100; what is done with one, some or all of them.

import { at, useAsked } from "./api.js";
import { BulkDialog } from "./bulk.js";
import { count, plural, shownKey } from "./format.js";
import { html, useEffect, useMemo, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Letter } from "./letter.js";
import { hashOf, replaceQuery, route } from "./router.js";
import { session } from "./session.js";
import { useStore } from "./store.js";
import { Action, Asked, Empty, Section, Time } from "./ui.js";

const PAGE = 100;
const STATUSES = ["waiting", "blocked", "replayed", "discarded", "skipped"];

// What the address says, as the API asks for it.
function asQuery({ status, topic, error, id, key, since, until, all }) {
  return { status: status ? [status] : undefined, everything: all === "1" ? true : undefined, topic, error, id, key, since: moment(since), until: moment(until) };
}

const moment = (text) => (text ? new Date(text).toISOString() : undefined);

// The same as a selection for a job; null where the API has no such condition.
export function asSelection({ status, topic, error, id, key, since, until, all }) {
  if (id) return null;
  const select = { status: status ? [status] : all === "1" ? STATUSES : undefined, topic, error, key, since: moment(since), until: moment(until) };
  const said = Object.fromEntries(Object.entries(select).filter(([, value]) => value));
  return Object.keys(said).length ? said : { everything: true };
}

export function DeadLetters({ relay, letter }) {
  const { query: filter } = useStore(route);
  const summary = useAsked(at(relay, "/dead-letters/summary"), { every: 10 });
  const [selected, setSelected] = useState(new Set());
  const [bulk, setBulk] = useState(null);
  const [turn, setTurn] = useState(0);
  const change = (part) => replaceQuery({ ...filter, ...part });
  const done = () => {
    setSelected(new Set());
    setTurn((before) => before + 1);
    summary.reload();
  };
  if (letter) return html`<${Letter} relay=${relay} letter=${letter} onDone=${done} />`;
  return html`<div class="stack">
    <${Facets} asked=${summary} filter=${filter} onChange=${change} />
    <${Section} title="Dead letters" id="letters">
      <${Filters} filter=${filter} onChange=${change} />
      <${List} key=${`${turn} ${JSON.stringify(filter)}`} relay=${relay} filter=${filter} open=${summary.data?.open} selected=${selected} setSelected=${setSelected} onBulk=${setBulk} />
    <//>
    ${bulk && html`<${BulkDialog} relay=${relay} ...${bulk} onDone=${done} onClose=${() => setBulk(null)} />`}
  </div>`;
}

function Facets({ asked, filter, onChange }) {
  return html`<${Asked} asked=${asked} what="Counting">${(told) => html`<div class="facets">
    <section class="facet" aria-label="How many"><h2 class="facet-title">Open</h2>
      <p class=${`facet-figure num${told.open ? " icon-warning" : ""}`}>${count(told.open)}</p>
      <p class="facet-note">${told.oldest ? html`the oldest was refused <${Time} at=${told.oldest} />` : "nothing waits"}</p>
      <p class="facet-note num">${STATUSES.filter((each) => told.by_status[each]).map((each) => `${count(told.by_status[each])} ${each}`).join(" · ")}</p>
    </section>
    <${Facet} title="By error" name="error" listed=${told.by_error} chosen=${filter.error} onChange=${onChange} />
    <${Facet} title="By topic" name="topic" listed=${told.by_topic} chosen=${filter.topic} onChange=${onChange} />
  </div>`}<//>`;
}

function Facet({ title, name, listed, chosen, onChange }) {
  if (!listed.length) return null;
  const most = Math.max(...listed.map((each) => each.count));
  return html`<section class="facet" aria-label=${title}><h2 class="facet-title">${title}</h2>
    <ul>${listed.slice(0, 6).map((each) => {
      const value = each[name];
      const here = chosen === value;
      return html`<li key=${value}><button type="button" aria-pressed=${here ? "true" : "false"} disabled=${value === null} onClick=${() => onChange({ [name]: here ? "" : value })}>
        <span class="facet-bar" style=${{ width: `${(100 * each.count) / most}%` }}></span>
        <span class="facet-name">${value ?? "none"}</span><span class="num">${count(each.count)}</span></button></li>`;
    })}</ul></section>`;
}

function Filters({ filter, onChange }) {
  const [given, setGiven] = useState(filter);
  useEffect(() => setGiven(filter), [filter]);
  const me = useStore(session, (value) => value.me);
  const field = (name) => ({ value: given[name] ?? "", onInput: (event) => setGiven({ ...given, [name]: event.target.value }), onChange: (event) => onChange({ [name]: event.target.value }) });
  const submit = (event) => {
    event.preventDefault();
    onChange(given);
  };
  const any = Object.values(filter).some(Boolean);
  return html`<form class="filters" role="search" aria-label="Dead letters" onSubmit=${submit}>
    <label class="search grow"><${Icon} name="search" /><span class="hidden">Number, or id of the record</span>
      <input type="search" data-search placeholder="Number, or id of the record   /" ...${field("id")} /></label>
    <label><span>Topic</span><input ...${field("topic")} placeholder="orders*" /></label>
    <label><span>Error</span><input ...${field("error")} /></label>
    <label title=${me?.scope === "read" ? 'This takes the scope "operate".' : undefined}><span>Key</span><input ...${field("key")} disabled=${me?.scope === "read"} /></label>
    <label><span>Status</span><select onChange=${(event) => onChange(event.target.value === "all" ? { all: "1", status: "" } : { all: "", status: event.target.value })}>
      ${["", ...STATUSES, "all"].map((each) => html`<option key=${each} value=${each} selected=${each === (filter.all === "1" ? "all" : (filter.status ?? ""))}>${each || "open"}</option>`)}</select></label>
    <label class="moment"><span>Refused since</span><input type="datetime-local" ...${field("since")} /></label>
    <label class="moment"><span>until</span><input type="datetime-local" ...${field("until")} /></label>
    <button type="submit" class="hidden" tabindex="-1" aria-hidden="true">Search</button>
    ${any && html`<button type="button" class="button small" onClick=${() => (setGiven({}), replaceQuery({}))}>Clear</button>`}
  </form>`;
}

function List({ relay, filter, open, selected, setSelected, onBulk }) {
  const [pages, setPages] = useState([""]);
  const asked = useAsked(at(relay, "/dead-letters"), { query: { ...asQuery(filter), limit: PAGE, after: pages.at(-1) } });
  return html`<${Asked} asked=${asked} what="Looking for dead letters">${(told) => {
    const first = (pages.length - 1) * PAGE;
    const any = Object.values(filter).some(Boolean);
    if (!told.dead_letters.length) {
      return any ? html`<${Empty} title="None of this kind">Other filters may find some.<//>` : html`<${Empty} title="No dead letter waits">Nothing was refused, or all of it is settled.<//>`;
    }
    return html`
      ${told.notices.map((each) => html`<p class="muted small">${each}</p>`)}
      <${BulkBar} filter=${filter} open=${open} selected=${selected} onBulk=${onBulk} />
      <${Table} relay=${relay} filter=${filter} letters=${told.dead_letters} selected=${selected} setSelected=${setSelected} />
      <nav class="pager" aria-label="Pages">
        <button type="button" class="button small" disabled=${pages.length === 1} onClick=${() => setPages(pages.slice(0, -1))}>Before</button>
        <span class="num muted" aria-live="polite">${count(first + 1)}–${count(first + told.dead_letters.length)}${!any && open ? ` of ${count(open)}` : ""}</span>
        <button type="button" class="button small" disabled=${!told.next} onClick=${() => setPages([...pages, told.next])}>Next</button>
      </nav>`;
  }}<//>`;
}

function BulkBar({ filter, open, selected, onBulk }) {
  const select = asSelection(filter);
  const any = Object.values(filter).some(Boolean);
  const all = any ? "all that match" : `all${open ? ` ${count(open)}` : ""}`;
  const some = { ids: [...selected] };
  return html`<div class="bulk" role="group" aria-label="What is done with them">
    <span class="num" aria-live="polite">${selected.size ? `${count(selected.size)} selected` : html`<span class="muted">none selected</span>`}</span>
    <${Action} scope="operate" kind="small" disabled=${!selected.size} why="Select some first." onClick=${() => onBulk({ what: "replay", select: some })}>Replay selected<//>
    <${Action} scope="admin" kind="small" disabled=${!selected.size} why="Select some first." onClick=${() => onBulk({ what: "discard", select: some })}>Discard selected<//>
    <span class="grow"></span>
    ${select && html`<${Action} scope="operate" kind="small" onClick=${() => onBulk({ what: "replay", select })}>Replay ${all} …<//>
      <${Action} scope="admin" kind="small" onClick=${() => onBulk({ what: "discard", select })}>Discard ${all} …<//>`}
  </div>`;
}

function Table({ relay, filter, letters, selected, setSelected }) {
  const ids = useMemo(() => letters.map((each) => each.letter), [letters]);
  const all = ids.every((each) => selected.has(each));
  const toggle = (id) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setSelected(next);
  };
  const toggleAll = () => {
    const next = new Set(selected);
    for (const each of ids) if (all) next.delete(each); else next.add(each);
    setSelected(next);
  };
  return html`<table class="relays letters" role="table" aria-label="Dead letters, in the order of their positions">
    <thead role="rowgroup"><tr role="row">
      <th scope="col" role="columnheader"><input type="checkbox" checked=${all} onChange=${toggleAll} aria-label="Select all of this page" /></th>
      ${["Record", "Refused because", "Topic", "Key", "Status", "Last refused"].map((each) => html`<th scope="col" role="columnheader">${each}</th>`)}
    </tr></thead>
    <tbody role="rowgroup">${letters.map((each) => html`<${LetterRow} key=${each.letter} relay=${relay} filter=${filter} letter=${each} checked=${selected.has(each.letter)} onToggle=${toggle} />`)}</tbody>
  </table>`;
}

function LetterRow({ relay, filter, letter, checked, onToggle }) {
  return html`<tr role="row" class=${checked ? "row-selected" : ""}>
    <td role="cell" class="check-cell"><input type="checkbox" checked=${checked} onChange=${() => onToggle(letter.letter)} aria-label=${`Select dead letter ${letter.letter}`} /></td>
    <th scope="row" role="rowheader" data-label="Record"><a href=${hashOf(["relays", relay, "dead-letters", String(letter.letter)], filter)} class="id">${letter.id}</a>
      <span class="sub num">no. ${letter.letter} · ${letter.position}${letter.edited ? html` · <span class="tag">edited</span>` : ""}</span></th>
    <td role="cell" data-label="Refused because"><b>${letter.error}</b><span class="sub cut-lines">${letter.reason ?? ""}</span></td>
    <td role="cell" data-label="Topic">${letter.topic ?? html`<span class="faint">none</span>`}<span class="sub">${letter.sink}</span></td>
    <td role="cell" data-label="Key" class="cut">${shownKey(letter.key) || html`<span class="faint">–</span>`}</td>
    <td role="cell" data-label="Status"><span class=${`tag tag-${letter.status}`}>${letter.status}</span></td>
    <td role="cell" data-label="Last refused" class="num"><${Time} at=${letter.last_at} /><span class="sub">${plural(letter.attempts, "attempt")}</span></td>
  </tr>`;
}

// One relay: who it is, what can be done with it, and the views about it.

import { at, useAsked } from "./api.js";
import { AuditLog } from "./audit.js";
import { Charts } from "./charts.js";
import { ChangeDialog, ResumeDialog } from "./control.js";
import { Doctor, Finding } from "./doctor.js";
import { EventLife } from "./event.js";
import { RecentEvents } from "./events.js";
import { Find } from "./find.js";
import { Flow } from "./flow.js";
import { bytes, count, duration, isNumber, rate, since } from "./format.js";
import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { Jobs, RunningJobs } from "./jobs.js";
import { DeadLetters } from "./letters.js";
import { overview } from "./live.js";
import { behind, safety } from "./overview.js";
import { PauseDialog } from "./pause.js";
import { hashOf } from "./router.js";
import { RouteTest } from "./routing.js";
import { SettingsView } from "./settings.js";
import { useStore } from "./store.js";
import { Action, Asked, Copy, Empty, Figure, Section, Status, Time } from "./ui.js";
import { condition } from "./verdict.js";

const VIEWS = [
  ["", "Now"],
  ["dead-letters", "Dead letters"],
  ["events", "Events"],
  ["jobs", "Jobs"],
  ["doctor", "Doctor"],
  ["route-test", "Route test"],
  ["settings", "Settings"],
  ["audit-log", "Audit log"],
];

export function RelayPage({ relay, rest }) {
  const row = useStore(overview, ({ relays }) => relays?.find((each) => each.name === relay && each.in_settings) ?? null);
  const known = useStore(overview, ({ relays }) => relays !== null);
  const [dialog, setDialog] = useState(null);
  const view = rest[0] ?? "";
  const led = row ? row.instance !== null : known ? false : null;
  const close = () => setDialog(null);
  return html`
    <${Head} relay=${relay} row=${row} onDialog=${setDialog} />
    <${Tabs} relay=${relay} view=${view} row=${row} />
    ${known && !row && view === "" && html`<${Empty} title=${`There is no relay ${relay} to see`}><a href="#/">All relays</a><//>`}
    <${Shown} relay=${relay} row=${row} led=${led} view=${view} rest=${rest} />
    ${dialog === "pause" && html`<${PauseDialog} relay=${relay} onClose=${close} />`}
    ${dialog === "resume" && html`<${ResumeDialog} relay=${relay} row=${row} onClose=${close} />`}
    ${(dialog === "restart" || dialog === "drain") && html`<${ChangeDialog} relay=${relay} row=${row} what=${dialog} onClose=${close} />`}
  `;
}

function Head({ relay, row, onDialog }) {
  const state = row ? condition(row) : { level: "none", text: "not known" };
  return html`<div class="relay-head">
    <div>
      <nav aria-label="You are here" class="crumbs"><a href="#/">Relays</a> <span aria-hidden="true">/</span></nav>
      <h1>${relay} <${Status} ...${state} /></h1>
      ${row && html`<p class="muted small">${[row.database, `slot ${row.slot}`, row.sinks?.join(", "), row.delivery?.replaceAll("_", " ")].filter(Boolean).join(" · ")}</p>`}
    </div>
    <div class="buttons">
      ${row?.paused
        ? html`<${Action} scope="operate" kind="primary" onClick=${() => onDialog("resume")}>Resume<//>`
        : html`<${Action} scope="operate" onClick=${() => onDialog("pause")}>Pause …<//>`}
      <${Action} scope="operate" onClick=${() => onDialog("restart")}>Restart …<//>
      <${Action} scope="operate" onClick=${() => onDialog("drain")}>Drain …<//>
    </div>
  </div>`;
}

function Tabs({ relay, view, row }) {
  return html`<nav class="tabs" aria-label=${`Views of ${relay}`}>
    ${VIEWS.map(([name, label]) => {
      const here = view === name;
      const number = name === "dead-letters" && row?.dead_letters ? row.dead_letters : null;
      return html`<a key=${name} href=${hashOf(["relays", relay, ...(name ? [name] : [])])} aria-current=${here ? "page" : undefined}>
        ${label}${number && html` <span class="pill num">${count(number)}</span>`}</a>`;
    })}
  </nav>`;
}

function Shown({ relay, row, led, view, rest }) {
  if (view === "") return html`<${Now} relay=${relay} row=${row} led=${led} />`;
  if (view === "dead-letters") return html`<${DeadLetters} relay=${relay} letter=${rest[1]} />`;
  if (view === "events" && rest[1]) return html`<${EventLife} relay=${relay} id=${rest[1]} led=${led} />`;
  if (view === "events") return html`<div class="stack"><${Find} relay=${relay} /><${RecentEvents} relay=${relay} rows=${100} led=${led} filters /></div>`;
  if (view === "jobs") return html`<${Jobs} relay=${relay} />`;
  if (view === "doctor") return html`<${Doctor} relay=${relay} />`;
  if (view === "route-test") return html`<${RouteTest} relay=${relay} />`;
  if (view === "settings") return html`<${SettingsView} relay=${relay} />`;
  if (view === "audit-log") return html`<${AuditLog} relay=${relay} />`;
  return html`<${Empty} title="There is nothing at this address"><a href=${hashOf(["relays", relay])}>${relay}</a><//>`;
}

function Now({ relay, row, led }) {
  const status = useAsked(at(relay), { every: 5 });
  return html`<div class="stack">
    ${row && row.level !== "ok" && html`<${Trouble} row=${row} />`}
    ${row && html`<${Figures} row=${row} />`}
    <${RunningJobs} relay=${relay} />
    <${Flow} relay=${relay} row=${row} />
    <${Charts} relay=${relay} />
    <div class="columns">
      <${Section} title="Instances" id="instances">
        <${Asked} asked=${status} what="Asking PostgreSQL">${(told) => html`<${Instances} status=${told.status} row=${row} />`}<//>
      <//>
      <${Section} title="Slot" id="slot">
        <${Asked} asked=${status} what="Asking PostgreSQL">${(told) => html`<${Slot} status=${told.status} />`}<//>
      <//>
    </div>
    ${status.data?.status?.problems.length > 0 && html`<${Section} title="What is wrong with the slot" id="problems">
      <ul class="findings">${status.data.status.problems.map((each) => html`<${Finding} key=${each.subject} finding=${each} />`)}</ul>
    <//>`}
    <${RecentEvents} relay=${relay} rows=${12} led=${led} />
  </div>`;
}

function Trouble({ row }) {
  const { level } = condition(row);
  return html`<section class=${`verdict verdict-small verdict-${level}`} aria-label="What is wrong">
    <${Icon} name=${level} size=${22} />
    <div class="verdict-text">
      <p class="verdict-sentence">${pauseWords(row) ?? `${row.why.charAt(0).toUpperCase()}${row.why.slice(1)}.`}</p>
      <div class="verdict-more">
        ${row.todo && html`<span class="todo"><span class="muted">What to do:</span> <code>${row.todo}</code> <${Copy} text=${row.todo} /></span>`}
        ${row.last_error && row.last_error !== row.why && html`<span class="muted">Last error: ${row.last_error}</span>`}
      </div>
    </div>
  </section>`;
}

function pauseWords(row) {
  if (!row.paused || row.level === "critical") return null;
  const { by, reason, at: from, until, limit_bytes: limit, at_limit: then } = row.paused;
  const end = until ? `until ${since(until)}` : "until it is resumed";
  const bound = isNumber(limit) ? `, or until the slot holds ${bytes(limit)}: then it ${then === "drop_slot" ? "gives the slot up" : "resumes"}` : "";
  return `Paused by ${by ?? "an unknown role"}${from ? ` since ${since(from)}` : ""}, ${end}${bound}.${reason ? ` Reason: ${reason}` : ""}`;
}

function Figures({ row }) {
  const late = isNumber(row.lag_seconds) && row.lag_seconds > 60 ? "critical" : row.lag_seconds > 5 ? "warning" : "";
  const unsafe = row.wal_status === "lost" || row.wal_status === "unreserved" || (isNumber(row.safe_seconds) && row.safe_seconds < 3600);
  return html`<dl class="figures">
    <${Figure} label="Published" value=${rate(row.published_per_second)} note=${isNumber(row.bytes_per_second) ? `${bytes(row.bytes_per_second)}/s` : ""} />
    <${Figure} label="Behind" value=${behind(row)} note=${isNumber(row.lag_bytes) ? `${bytes(row.lag_bytes)} of WAL` : ""} level=${late} />
    <${Figure} label="WAL held" value=${bytes(row.retained_bytes)} note=${safety(row)} level=${unsafe ? "critical" : ""} />
    <${Figure} label="Commit to receipt, p99" value=${isNumber(row.latency_p99) ? duration(row.latency_p99) : "–"} />
    <${Figure} label="In flight" value=${count(row.in_flight)} note=${row.in_flight ? "sent, no receipt yet" : ""} />
    <${Figure} label="Dead letters" value=${row.dead_letters ? html`<a href=${hashOf(["relays", row.name, "dead-letters"])}>${count(row.dead_letters)}</a>` : count(row.dead_letters)} level=${row.dead_letters ? "warning" : ""} />
  </dl>`;
}

function Instances({ status, row }) {
  if (!status) return html`<${Empty} title="Not known" />`;
  const listed = [...(status.leader ? [[status.leader, "leads"]] : []), ...status.standbys.map((each) => [each, "stands by"])];
  if (!listed.length) return html`<${Empty} title="No instance is connected"><code>walrelay run</code> starts one.<//>`;
  return html`<ul class="instances">${listed.map(([each, role]) => html`<li key=${each.pid}>
    <span class=${`role-mark role-${role === "leads" ? "leads" : "stands"}`}>${role}</span>
    <span><b>${role === "leads" && row?.instance ? row.instance : each.application_name}</b>
      <span class="sub">from ${each.client_address ?? "a local socket"} as ${each.role}, backend ${each.pid}, connected <${Time} at=${each.connected_at} /></span></span>
  </li>`)}</ul>`;
}

function Slot({ status }) {
  if (!status) return html`<${Empty} title="Not known" />`;
  const pairs = [
    ["State", status.active ? "read by an instance" : "nobody reads it"],
    ["WAL", status.wal_status ?? "–"],
    ["Confirmed up to", html`<code>${status.confirmed_lsn ?? "–"}</code>`],
    ["Server is at", html`<code>${status.current_lsn}</code>`],
    ["Keeps from", html`<code>${status.restart_lsn ?? "–"}</code>`],
    ["Plugin", status.plugin ?? "–"],
    ["Held by", status.held_by],
    ["Waits for", status.waits_for],
  ].filter(([, value]) => value);
  return html`<dl class="pairs">${pairs.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="num">${value}</dd></div>`)}</dl>`;
}

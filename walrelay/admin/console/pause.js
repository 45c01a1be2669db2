// Pausing: what it costs comes first, then why, for how long, and what ends it.

import { ask, at, useAsked } from "./api.js";
import { bytes, clock, duration, isNumber } from "./format.js";
import { html, useState } from "./html.js";
import { may } from "./session.js";
import { Asked, Dialog, ProblemBox, tell, useDoing } from "./ui.js";

const DURATIONS = [[1800, "30 min"], [3600, "1 h"], [7200, "2 h"], [28800, "8 h"], [0, "until resumed"]];
const UNITS = { MB: 1e6, GB: 1e9, TB: 1e12 };

export function PauseDialog({ relay, onClose }) {
  const cost = useAsked(at(relay, "/pause-cost"));
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState(3600);
  const [limited, setLimited] = useState(false);
  const [limit, setLimit] = useState("10");
  const [unit, setUnit] = useState("GB");
  const [then, setThen] = useState("resume");
  const [missing, setMissing] = useState(false);
  const doing = useDoing();
  const limitBytes = limited && Number(limit) > 0 ? Math.round(Number(limit) * UNITS[unit]) : null;

  const submit = async (event) => {
    event.preventDefault();
    if (!reason.trim()) {
      setMissing(true);
      return;
    }
    const body = { reason: reason.trim(), for_seconds: seconds || null, until: null, limit_bytes: limitBytes, at_limit: limited ? then : "resume" };
    const done = await doing.run(() => ask(at(relay, "/pause"), { method: "POST", body }));
    if (done) {
      tell(done.disobeyed || `${relay} is paused.`, "paused");
      onClose();
    }
  };

  return html`<${Dialog} title=${`Pause ${relay}`} onClose=${onClose}>
    <p>The relay finishes what is under way, then publishes nothing. Nothing is lost: what is committed meanwhile waits in the WAL, and is published in order afterwards.</p>
    <${Asked} asked=${cost} what="Measuring what it costs">${(told) => html`<${Cost} cost=${told} seconds=${seconds} limit=${limitBytes} />`}<//>
    <form onSubmit=${submit}>
      <label for="pause-reason">Reason</label>
      <input id="pause-reason" autofocus maxlength="500" value=${reason} aria-invalid=${missing && !reason.trim() ? "true" : undefined}
        aria-describedby="pause-reason-note" placeholder="the warehouse is upgraded" onInput=${(event) => setReason(event.target.value)} />
      <p class=${missing && !reason.trim() ? "field-error" : "field-note"} id="pause-reason-note">${missing && !reason.trim() ? "Say why: the next on call reads it." : "Everybody who looks at the relay sees it."}</p>
      <fieldset><legend>For how long</legend><div class="segmented">
        ${DURATIONS.map(([value, label]) => html`<label key=${value}><input type="radio" name="duration" checked=${seconds === value} onChange=${() => setSeconds(value)} /><span>${label}</span></label>`)}
      </div></fieldset>
      <fieldset><legend>Limit</legend>
        <label class="check"><input type="checkbox" checked=${limited} onChange=${() => setLimited(!limited)} /> end it when the slot holds too much WAL</label>
        ${limited && html`<div class="indent">
          <div class="inline"><label for="pause-limit">At</label>
            <input id="pause-limit" class="narrow num" inputmode="decimal" value=${limit} onInput=${(event) => setLimit(event.target.value)} />
            <select aria-label="Unit" onChange=${(event) => setUnit(event.target.value)}>${Object.keys(UNITS).map((each) => html`<option key=${each} value=${each} selected=${each === unit}>${each}</option>`)}</select></div>
          <label class="check"><input type="radio" name="then" checked=${then === "resume"} onChange=${() => setThen("resume")} /> resume</label>
          <label class="check"><input type="radio" name="then" checked=${then === "drop_slot"} disabled=${!may("admin")} onChange=${() => setThen("drop_slot")} />
            <span>give the slot up: the relay stops, and <code>walrelay recover</code> publishes from the table${may("admin") ? "" : html` <span class="muted">(takes the scope "admin")</span>`}</span></label>
        </div>`}
      </fieldset>
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="button primary" disabled=${doing.busy}>${doing.busy ? "Pausing …" : "Pause"}</button>
      </div>
    </form>
  <//>`;
}

export function Cost({ cost, seconds, limit }) {
  const { retained_bytes: held, bytes_per_minute: perMinute, safe_bytes: safe, hours_left: hours } = cost;
  const until = seconds && isNumber(perMinute) ? (perMinute * seconds) / 60 : null;
  const endsAt = limit !== null && isNumber(perMinute) && perMinute > 0 ? Math.max(0, (limit - (held ?? 0)) / perMinute) * 60 : null;
  const lostFirst = isNumber(hours) && hours * 3600 < Math.min(seconds || Infinity, endsAt ?? Infinity);
  return html`<div class=${`cost${lostFirst && seconds ? " cost-danger" : ""}`}>
    <dl class="figures compact">
      <div class="figure"><dt>WAL held now</dt><dd class="num">${bytes(held)}</dd></div>
      <div class="figure"><dt>More each minute</dt><dd class="num">${bytes(perMinute)}</dd></div>
      <div class="figure"><dt>Slot is lost in</dt><dd class="num">${isNumber(hours) ? duration(hours * 3600) : "no limit"}</dd>
        <dd class="figure-note">${isNumber(safe) ? `${bytes(safe)} more is safe` : "the disk fills"}</dd></div>
    </dl>
    ${isNumber(safe) && isNumber(held) && html`<${Meter} held=${held} more=${until ?? 0} most=${held + safe} />`}
    <p class="small">${outcome({ seconds, until, held, lostFirst, hours, endsAt, cost })}</p>
  </div>`;
}

function Meter({ held, more, most }) {
  const share = (value) => `${Math.min(100, (100 * value) / Math.max(most, 1)).toFixed(2)}%`;
  return html`<div class="meter" role="img" aria-label=${`${bytes(held)} held, ${bytes(more)} more by the end of the pause, of ${bytes(most)} that are safe`}>
    <span class="meter-held" style=${{ width: share(held) }}></span><span class="meter-more" style=${{ width: share(more) }}></span>
  </div>`;
}

function outcome({ seconds, until, held, lostFirst, hours, endsAt, cost }) {
  const begins = cost.led === false ? "No instance leads the relay just now: it pauses as soon as one does. " : "";
  if (lostFirst && (seconds || endsAt !== null)) return `${begins}At the present rate the slot is lost in ${duration(hours * 3600)}, before this pause ends. Make it shorter, or set a limit.`;
  if (endsAt !== null && (!seconds || endsAt < seconds)) return `${begins}At the present rate the limit is reached in ${duration(endsAt)}.`;
  if (!seconds) return `${begins}It lasts until somebody resumes it. Until then WAL is held, of all databases of the server.`;
  return `${begins}Until ${clock(Date.now() / 1000 + seconds).slice(0, 5)} the slot comes to hold ${bytes((held ?? 0) + (until ?? 0))} at the present rate.`;
}

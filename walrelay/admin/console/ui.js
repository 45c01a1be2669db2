// The parts that every view is made of.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { absolute, ago } from "./format.js";
import { Icon } from "./icons.js";
import { session, whyNot } from "./session.js";
import { createStore, now, useStore } from "./store.js";

export function Status({ level, text }) {
  return html`<span class=${`status status-${level}`}><${Icon} name=${level} />${text}</span>`;
}

// A time as people tell it; the exact one is its title.
export function Time({ at, none = "–" }) {
  const { at: current } = useStore(now);
  if (at === null || at === undefined || at === "") return html`<span class="faint">${none}</span>`;
  const iso = typeof at === "number" ? new Date(at * 1000).toISOString() : at;
  return html`<time datetime=${iso} title=${absolute(at)}>${ago(at, current)}</time>`;
}

export function Figure({ label, value, note, level, title }) {
  return html`<div class=${`figure${level ? ` figure-${level}` : ""}`} title=${title}>
    <dt>${label}</dt>
    <dd class="num">${value}</dd>
    ${note && html`<dd class="figure-note">${note}</dd>`}
  </div>`;
}

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Select and copy it by hand");
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<button type="button" class="button small" onClick=${copy}>
    <${Icon} name="copy" size=${14} /><span aria-live="polite">${done || label}</span>
  </button>`;
}

// A button for what may take a scope: disabled with why.
export function Action({ scope = "read", kind = "", onClick, disabled = false, why = "", children, ...more }) {
  const me = useStore(session, (value) => value.me);
  const refused = whyNot(scope, me) || (disabled ? why : "");
  return html`<button type="button" class=${`button ${kind}`} aria-disabled=${refused || disabled ? "true" : undefined}
    title=${refused || undefined} aria-description=${refused || undefined} ...${more}
    onClick=${(event) => (refused || disabled ? undefined : onClick(event))}>${children}</button>`;
}

export function ProblemBox({ problem, again }) {
  return html`<div class="problem" role="alert">
    <${Icon} name="critical" />
    <div>
      <p><strong>${sentence(problem.message)}</strong></p>
      ${problem.hint && html`<p>${problem.hint}</p>`}
      ${again && html`<p><button type="button" class="button small" onClick=${again}>Try again</button></p>`}
    </div>
  </div>`;
}

export function sentence(text) {
  const told = String(text ?? "");
  const begun = told.charAt(0).toUpperCase() + told.slice(1);
  return /[.!?]$/.test(begun) || !begun ? begun : `${begun}.`;
}

export function Loading({ what = "Loading" }) {
  return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${what} …</p>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p>${children}</p>`}</div>`;
}

// What was asked for, or why it is not there yet.
export function Asked({ asked, what, children }) {
  if (asked.data === null && asked.problem) {
    return html`<${ProblemBox} problem=${asked.problem} again=${asked.reload} />`;
  }
  if (asked.data === null) return html`<${Loading} what=${what} />`;
  return html`${asked.problem && html`<${ProblemBox} problem=${asked.problem} again=${asked.reload} />`}
    ${children(asked.data)}`;
}

export function Section({ title, id, aside, children, level = 2 }) {
  const heading = level === 2 ? html`<h2 id=${id}>${title}</h2>` : html`<h3 id=${id}>${title}</h3>`;
  return html`<section class="panel" aria-labelledby=${id}>
    <div class="panel-head">${heading}${aside && html`<div class="panel-aside">${aside}</div>`}</div>
    ${children}
  </section>`;
}

// A modal dialog. Esc closes it, and the browser gives the focus back.
export function Dialog({ title, onClose, wide = false, children }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const [dialog, before] = [element.current, document.activeElement];
    dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
    return () => {
      dialog.close();  // what is behind an open one can have no focus
      if (before instanceof HTMLElement && document.contains(before)) before.focus();
    };
  }, []);
  const outside = (event) => {
    if (event.target === element.current) onClose();
  };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby="dialog-title"
    onCancel=${(event) => (event.preventDefault(), onClose())} onMouseDown=${outside}>
    <div class="dialog-body">
      <div class="dialog-head">
        <h2 id="dialog-title">${title}</h2>
        <button type="button" class="button quiet icon-only" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
      </div>
      ${children}
    </div>
  </dialog>`;
}

// Says what was done, for a moment, to eyes and to screen readers.
export const told = createStore({ text: "", level: "ok", at: 0 });

export function tell(text, level = "ok") {
  told.set({ text, level, at: Date.now() });
}

export function Toast() {
  const { text, level, at } = useStore(told);
  useEffect(() => {
    const timer = setTimeout(() => told.set({ text: "" }), 6000);
    return () => clearTimeout(timer);
  }, [at]);
  return html`<div class="toast-place" role="status" aria-live="polite">
    ${text && html`<p class=${`toast toast-${level}`}><${Icon} name=${level} />${text}</p>`}
  </div>`;
}

// The actions of a dialog that asks the API: what is under way and what went wrong.
export function useDoing() {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (work) => {
    setState({ busy: true, problem: null });
    try {
      const result = await work();
      setState({ busy: false, problem: null });
      return result;
    } catch (problem) {
      setState({ busy: false, problem });
      return undefined;
    }
  };
  return { ...state, run };
}

export function useMedia(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const look = () => setMatches(list.matches);
    look();
    list.addEventListener("change", look);
    return () => list.removeEventListener("change", look);
  }, [query]);
  return matches;
}

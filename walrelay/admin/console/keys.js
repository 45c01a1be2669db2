// What the keyboard does, and the help that says so.

import { html, useEffect } from "./html.js";
import { Dialog } from "./ui.js";
import { go } from "./router.js";

export function Keys({ onHelp }) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "/") {
        const field = document.querySelector("[data-search]");
        if (!field) return;
        event.preventDefault();
        field.focus();
        field.select?.();
      } else if (event.key === "?") {
        event.preventDefault();
        onHelp();
      } else if (event.key === "h") {
        go([]);
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  return null;
}

function typing(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

const KEYS = [
  ["/", "go to the search field"],
  ["h", "all relays"],
  ["Tab, Enter", "walk through the page, open what has the focus"],
  ["Esc", "close a dialog"],
  ["?", "this help"],
];
const WORDS = [
  ["Behind", "The age of the oldest committed event that the broker has not acknowledged."],
  ["WAL held", "What PostgreSQL keeps for the relay's slot. All databases of the server write into it."],
  ["Safe for", "How long the server may go on at its present rate until it gives the slot up (max_slot_wal_keep_size)."],
  ["Leads, stands by", "One instance reads the slot. The others take over when it ends."],
  ["Dead letter", "A message that was refused and is kept whole, until somebody replays or discards it."],
  ["Paused", "Somebody wants the relay to publish nothing. Nothing is lost; WAL is held meanwhile."],
];

export function Help({ onClose }) {
  return html`<${Dialog} title="Help" onClose=${onClose}>
    <h3>Keys</h3>
    <dl class="pairs">${KEYS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <h3>Words</h3>
    <dl class="pairs">${WORDS.map(([word, what]) => html`<div><dt>${word}</dt><dd>${what}</dd></div>`)}</dl>
  <//>`;
}

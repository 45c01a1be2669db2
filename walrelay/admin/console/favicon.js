// The worst state, where a tab shows it: title and icon.

import { worst, verdict } from "./verdict.js";

const COLOURS = { ok: "#16803c", warning: "#b45309", critical: "#c81e1e" };
const SHAPES = {
  ok: '<circle cx="8" cy="8" r="7" fill="COLOUR"/><path d="m4.5 8.2 2.4 2.4 4.6-5" stroke="#fff" stroke-width="1.8" fill="none"/>',
  warning: '<path d="M8 1 15.5 15H.5Z" fill="COLOUR"/><path d="M8 6v4.2M8 11.6v1.6" stroke="#fff" stroke-width="1.8"/>',
  critical: '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5Z" fill="COLOUR"/><path d="M8 4v5M8 10.5v1.8" stroke="#fff" stroke-width="1.9"/>',
};
const WORDS = { ok: "", warning: "look: ", critical: "NEEDS YOU: " };

let shown = "";

export function showWorst(relays, me) {
  const level = me && relays ? worst(relays) : "ok";
  const told = me && relays ? verdict(relays) : null;
  const subject = told?.relay ? `${WORDS[level]}${told.relay} · ` : "";
  document.title = `${subject}walrelay`;
  if (shown === level) return;
  shown = level;
  const drawing = SHAPES[level].replace("COLOUR", COLOURS[level]);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">${drawing}</svg>`;
  document.getElementById("favicon").href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

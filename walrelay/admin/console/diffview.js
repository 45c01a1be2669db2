// Two texts beside each other, or below each other where there is no room. Lines far from a change are folded.

import { differs, lines } from "./diff.js";
import { html, useMemo } from "./html.js";
import { useMedia } from "./ui.js";

const AROUND = 3;

export function Diff({ before, after, label = "What the edit changes" }) {
  const rows = useMemo(() => folded(lines(before, after)), [before, after]);
  const narrow = useMedia("(max-width: 800px)");
  if (!differs(rows)) return html`<p class="muted">Nothing is changed yet.</p>`;
  return html`<div class="diff scroll" tabindex="0" role="region" aria-label=${label}>
    ${narrow ? html`<${Unified} rows=${rows} />` : html`<${Split} rows=${rows} />`}
  </div>`;
}

function folded(rows) {
  const near = rows.map((_, index) => rows.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((each) => each.kind !== "same"));
  const out = [];
  rows.forEach((row, index) => {
    if (near[index]) out.push(row);
    else if (out.at(-1)?.kind !== "fold") out.push({ kind: "fold", lines: 1 });
    else out.at(-1).lines += 1;
  });
  return out.map((each) => (each.kind === "fold" ? each : each)).filter((each, index, all) => each.kind !== "fold" || all.length > 1);
}

const fold = (row, columns) => html`<tr class="diff-fold"><td colspan=${columns}>${row.lines} unchanged ${row.lines === 1 ? "line" : "lines"}</td></tr>`;

function Split({ rows }) {
  return html`<table><colgroup><col class="diff-number-column" /><col /><col class="diff-number-column" /><col /></colgroup><thead><tr><th scope="col" colspan="2">Original</th><th scope="col" colspan="2">Edited</th></tr></thead>
    <tbody>${rows.map((row, index) => (row.kind === "fold" ? fold(row, 4) : html`<tr key=${index}>
      <td class="diff-number num">${row.left ?? ""}</td>
      <td class=${row.before === null ? "diff-none" : row.kind === "same" ? "" : "diff-removed"}>${marked("−", row.before, row.kind)}</td>
      <td class="diff-number num">${row.right ?? ""}</td>
      <td class=${row.after === null ? "diff-none" : row.kind === "same" ? "" : "diff-added"}>${marked("+", row.after, row.kind)}</td>
    </tr>`))}</tbody></table>`;
}

function Unified({ rows }) {
  const flat = rows.flatMap((row) => {
    if (row.kind === "same" || row.kind === "fold") return [row];
    return [row.before !== null && { kind: "removed", text: row.before }, row.after !== null && { kind: "added", text: row.after }].filter(Boolean);
  });
  return html`<table><thead class="hidden"><tr><th scope="col">Changed lines</th></tr></thead><tbody>${flat.map((row, index) => (row.kind === "fold" ? fold(row, 1) : html`<tr key=${index}>
    <td class=${row.kind === "same" ? "" : `diff-${row.kind}`}>${marked(row.kind === "added" ? "+" : "−", row.text ?? row.before, row.kind)}</td></tr>`))}</tbody></table>`;
}

function marked(sign, text, kind) {
  if (text === null) return "";
  return html`<span class="diff-sign" aria-hidden="true">${kind === "same" ? " " : sign}</span>${kind !== "same" && html`<span class="hidden">${sign === "+" ? "added: " : "removed: "}</span>`}<code>${text}</code>`;
}

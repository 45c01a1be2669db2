// The last minute or two of a rate, as a line without axes: it says "steady", "stopped" or "just began" at a glance.

import { html } from "./html.js";

const WIDTH = 72;
const HEIGHT = 20;

export function Sparkline({ values }) {
  const known = values.filter((each) => each !== null);
  if (known.length < 2) return html`<svg class="spark" width=${WIDTH} height=${HEIGHT} aria-hidden="true"></svg>`;
  const most = Math.max(...known, 1);
  const step = WIDTH / (values.length - 1);
  const points = values
    .map((each, index) => (each === null ? null : `${(index * step).toFixed(1)},${(HEIGHT - 2 - (each / most) * (HEIGHT - 4)).toFixed(1)}`))
    .filter(Boolean)
    .join(" ");
  return html`<svg class="spark" width=${WIDTH} height=${HEIGHT} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
    <polyline points=${points} />
  </svg>`;
}

// Signs that say the same as the colours beside them.

import { html } from "./html.js";

const paths = {
  ok: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm3.3 4.9-4 4.3a.8.8 0 0 1-1.1 0L4.6 9.1a.8.8 0 1 1 1.1-1.1l1 1 3.5-3.7a.8.8 0 0 1 1.1 1.1Z",
  warning: "M8.9 2 15 12.6a1 1 0 0 1-.9 1.5H1.9a1 1 0 0 1-.9-1.5L7.1 2a1 1 0 0 1 1.8 0ZM8 5.6a.8.8 0 0 0-.8.9l.2 3a.6.6 0 0 0 1.2 0l.2-3a.8.8 0 0 0-.8-.9Zm0 5a.9.9 0 1 0 0 1.8.9.9 0 0 0 0-1.8Z",
  critical: "M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2l3.7-3.7Zm.3 3a.8.8 0 0 0-.6 1.3L7 8l-2.1 2.2a.8.8 0 0 0 1 1L8 9.1l2.1 2.1a.8.8 0 0 0 1.1-1L9 8l2.2-2.2a.8.8 0 0 0-1.1-1L8 6.9 5.9 4.8a.7.7 0 0 0-.4-.3Z",
  paused: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM6 5h1.3v6H6V5Zm2.7 0H10v6H8.7V5Z",
  running: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM6.3 5l5 3-5 3V5Z",
  none: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8Zm0-1.3a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM5 7.3h6v1.4H5V7.3Z",
  search: "M7 2a5 5 0 1 0 3 9l3 3 1-1-3-3a5 5 0 0 0-4-8Zm0 1.4a3.6 3.6 0 1 1 0 7.2 3.6 3.6 0 0 1 0-7.2Z",
  copy: "M5.5 1.5h7a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1h-2v-1.3H12V2.8H6v1.5H4.5V2.5a1 1 0 0 1 1-1Zm-2 3h6a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-8a1 1 0 0 1 1-1Zm.3 1.3v7.4h5.4V5.8H3.8Z",
  sun: "M8 4.7a3.3 3.3 0 1 1 0 6.6 3.3 3.3 0 0 1 0-6.6ZM7.3 1h1.4v2H7.3V1Zm0 12h1.4v2H7.3v-2ZM1 7.3h2v1.4H1V7.3Zm12 0h2v1.4h-2V7.3ZM2.6 3.6l1-1L5 4 4 5 2.6 3.6ZM11 12l1-1 1.4 1.4-1 1L11 12Zm2.4-8.4L12 5l-1-1 1.4-1.4 1 1ZM5 12l-1.4 1.4-1-1L4 11l1 1Z",
  moon: "M6.2 1.6a5.4 5.4 0 0 0 8.2 7.2A6.6 6.6 0 1 1 6.2 1.6Z",
  auto: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Zm0 1.4v10.2A5.1 5.1 0 0 0 8 2.9Z",
  close: "m4.2 3.2 3.8 3.8 3.8-3.8 1 1L9 8l3.8 3.8-1 1L8 9l-3.8 3.8-1-1L7 8 3.2 4.2l1-1Z",
};

export function Icon({ name, label = "", size = 16 }) {
  return html`<svg class=${`icon icon-${name}`} viewBox="0 0 16 16" width=${size} height=${size}
    role=${label ? "img" : undefined} aria-label=${label || undefined} aria-hidden=${label ? undefined : "true"}>
    <path d=${paths[name] ?? paths.none} />
  </svg>`;
}

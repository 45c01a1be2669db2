// Light, dark, or as the system has it.

import { html, useState } from "./html.js";
import { Icon } from "./icons.js";
import { createStore } from "./store.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const ICONS = { system: "auto", light: "sun", dark: "moon" };

// Changes whenever the colours do: what is drawn on a canvas is drawn again.
export const colours = createStore({ turn: 0 });
const changed = () => colours.set(({ turn }) => ({ turn: turn + 1 }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

export function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "system");
  const next = () => {
    const chosen = NEXT[theme];
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem("walrelay.theme", chosen);
    } catch {
      // It is then for this page only.
    }
    setTheme(chosen);
    changed();
  };
  return html`<button type="button" class="button quiet icon-only" onClick=${next}
    aria-label=${`Colours: ${theme}. Change to ${NEXT[theme]}`} title=${`Colours: ${theme}`}>
    <${Icon} name=${ICONS[theme]} />
  </button>`;
}

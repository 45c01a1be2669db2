// The page: who is signed in, what is followed, which view is shown.

import { signedOut, signIn } from "./api.js";
import { showWorst } from "./favicon.js";
import { Help, Keys } from "./keys.js";
import { html, render, useEffect, useErrorBoundary, useState } from "./html.js";
import { Icon } from "./icons.js";
import { follow, live, overview } from "./live.js";
import { Overview } from "./overview.js";
import { RelayPage } from "./relay.js";
import { route } from "./router.js";
import { session } from "./session.js";
import { SignIn } from "./signin.js";
import { useStore } from "./store.js";
import { ThemeSwitch } from "./themes.js";
import { Empty, Loading, ProblemBox, Time, Toast } from "./ui.js";

function App() {
  const { me, asked } = useStore(session);
  const { parts } = useStore(route);
  const [problem, setProblem] = useState(null);
  const [help, setHelp] = useState(false);
  const relay = parts[0] === "relays" ? (parts[1] ?? null) : null;

  const look = () => {
    setProblem(null);
    signIn().catch(setProblem);
  };
  useEffect(look, []);
  useEffect(() => (me ? follow(relay) : undefined), [me, relay]);
  useEffect(() => overview.watch(({ relays }) => showWorst(relays, session.get().me)), []);
  useEffect(() => {
    document.querySelector("main")?.scrollTo?.(0, 0);
    scrollTo(0, 0);
  }, [parts.join("/")]);

  return html`
    <a class="skip" href="#main" onClick=${toMain}>Skip to the content</a>
    <${Header} me=${me} onHelp=${() => setHelp(true)} />
    <main id="main" tabindex="-1">
      ${problem && html`<${ProblemBox} problem=${problem} again=${look} />`}
      ${!problem && !asked && html`<${Loading} what="Asking the admin API" />`}
      ${asked && !me && html`<${SignIn} />`}
      ${me && html`<${View} parts=${parts} key=${parts.slice(0, 2).join("/")} />`}
    </main>
    <${Toast} />
    <${Keys} onHelp=${() => setHelp(true)} />
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  `;
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

// A view that fails does not take the page with it.
function View({ parts }) {
  const [error, again] = useErrorBoundary();
  if (error) {
    console.error(error);
    return html`<${ProblemBox} problem=${{ message: "this view failed; it is a bug", hint: String(error.message) }} again=${again} />`;
  }
  if (!parts.length) return html`<${Overview} />`;
  if (parts[0] === "relays" && parts[1]) return html`<${RelayPage} relay=${parts[1]} rest=${parts.slice(2)} />`;
  return html`<${Empty} title="There is nothing at this address"><a href="#/">All relays</a><//>`;
}

function Header({ me, onHelp }) {
  return html`<header class="top">
    <a class="brand" href="#/"><${Logo} /><span>walrelay</span></a>
    ${me && html`<${Liveness} />`}
    <span class="grow"></span>
    ${me && html`<span class="who" title=${`Known by: ${me.way}. Version ${me.version}.`}>
      <span class="who-name">${me.name}</span><span class="tag">${me.scope}</span>
    </span>`}
    ${me?.way === "token" && html`<button type="button" class="button quiet" onClick=${() => signedOut()}>Sign out</button>`}
    <${ThemeSwitch} />
    <button type="button" class="button quiet icon-only" onClick=${onHelp} aria-label="Help: keys and words" title="Help (?)">?</button>
  </header>`;
}

function Logo() {
  return html`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" class="logo">
    <path d="M2 7h7l6 10h7" /><path d="M2 17h7l2-3.3M13.2 10.2 15 7h7" /><circle cx="12" cy="12" r="1.6" />
  </svg>`;
}

function Liveness() {
  const { live: isLive, since } = useStore(live);
  if (isLive) return html`<span class="live" role="status"><span class="dot" aria-hidden="true"></span>live</span>`;
  if (!since) return html`<span class="live live-off" role="status">connecting …</span>`;
  return html`<span class="live live-off">
    <${Icon} name="warning" size=${14} /><span><span role="status">not live</span> since <${Time} at=${since / 1000} /></span>
  </span>`;
}

render(html`<${App} />`, document.getElementById("app"));

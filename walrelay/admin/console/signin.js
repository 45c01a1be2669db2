// Asks for a token where the API knows nobody by what the page shows.

import { signIn } from "./api.js";
import { html, useState } from "./html.js";
import { session } from "./session.js";
import { useStore } from "./store.js";
import { ProblemBox, useDoing } from "./ui.js";

export function SignIn() {
  const { refused } = useStore(session);
  const [given, setGiven] = useState("");
  const doing = useDoing();
  const submit = (event) => {
    event.preventDefault();
    if (given.trim()) doing.run(() => signIn(given.trim()));
  };
  return html`<div class="signin panel">
    <h1>Sign in</h1>
    <p class="muted">The admin API answers callers that its settings name. The token stays in this tab, and is forgotten with it.</p>
    <form onSubmit=${submit}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" autofocus value=${given}
        aria-invalid=${refused ? "true" : undefined} aria-describedby=${refused ? "token-refused" : undefined}
        onInput=${(event) => setGiven(event.target.value)} />
      ${refused && html`<p class="field-error" id="token-refused" role="alert">${refused}</p>`}
      ${doing.problem && html`<${ProblemBox} problem=${doing.problem} />`}
      <div class="buttons"><button type="submit" class="button primary" disabled=${doing.busy || !given.trim()}>Sign in</button></div>
    </form>
    <p class="muted small">None yet? <code>walrelay admin token NAME --scope read</code> makes one, and the line for the settings.</p>
  </div>`;
}

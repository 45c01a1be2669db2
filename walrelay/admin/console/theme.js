// Before the first paint: what was chosen with the switch. "system" leaves it to the browser.
const chosen = (() => {
  try {
    return localStorage.getItem("walrelay.theme");
  } catch {
    return null;
  }
})();
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;

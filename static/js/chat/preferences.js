// Preferences of this browser: theme, complete answers only, keyboard shortcuts.

const THEMES = ["system", "light", "dark"];

export function setUpPreferences() {
  const button = document.getElementById("theme");
  nameTheme(button);
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    store("theme", next);
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    nameTheme(button);
  });
  document.getElementById("open-settings").addEventListener("click", () => document.getElementById("settings").showModal());
  setUpSwitch("shortcuts-on", true, () => {});
  setUpSwitch("finished-only", false, (isOn) => document.body.toggleAttribute("data-finished-only", isOn));
}

function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

function nameTheme(button) {
  const names = { system: "system", light: "light", dark: "dark" };
  button.title = `Theme: ${names[theme()]}`;
  button.setAttribute("aria-label", button.title);
}

function setUpSwitch(id, byDefault, apply) {
  const box = document.getElementById(id);
  box.checked = (read(id) ?? String(byDefault)) === "true";
  apply(box.checked);
  box.addEventListener("change", () => {
    store(id, String(box.checked));
    apply(box.checked);
  });
}

function read(name) {
  try {
    return localStorage.getItem(`komand.${name}`);
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`komand.${name}`, value);
  } catch {
    // Storage is unavailable: the setting lasts until the page is closed.
  }
}

// What a person sets for this browser: colours, answers only when finished, shortcuts.

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
  const names = { system: "as the system", light: "light", dark: "dark" };
  button.title = `Colours: ${names[theme()]}`;
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
    // It holds for this page then.
  }
}

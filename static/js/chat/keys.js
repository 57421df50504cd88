// Keyboard shortcuts, with the keys that people know from other chat pages.

export function setUpKeys(composer, sidebar) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") escape(event, composer, sidebar);
    else if (areOn() && !event.ctrlKey && !event.metaKey && !event.altKey && ASKED[event.key.toLowerCase()]) decide(event);
    else if (areOn() && (event.ctrlKey || event.metaKey) && !event.altKey) shortcut(event, sidebar);
  });
}

function areOn() {
  return document.getElementById("shortcuts-on").checked;
}

// The nearest thing that can be left or stopped.
function escape(event, composer, sidebar) {
  if (document.querySelector("dialog[open]")) return;
  if (event.shiftKey) {
    composer.focus();
    return;
  }
  if (event.target.matches(".rename input, #search")) return;
  const menu = document.querySelector(".menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  if (sidebar.close()) return;
  const stop = document.getElementById("stop");
  if (!stop.hidden) stop.click();
}

// Single letters, and only while a request for approval has the focus.
function decide(event) {
  const asked = event.target.closest?.(".approval");
  if (!asked || event.target.matches("input, textarea")) return;
  event.preventDefault();
  asked.querySelector(`button[value="${ASKED[event.key.toLowerCase()]}"]`)?.click();
}

const ASKED = { a: "allow_once", d: "deny" };

function shortcut(event, sidebar) {
  const key = event.key.toLowerCase();
  const action = event.shiftKey ? SHIFTED[key] : PLAIN[key];
  if (!action) return;
  event.preventDefault();
  action(sidebar);
}

const PLAIN = {
  k: (sidebar) => {
    if (!document.getElementById("search").checkVisibility({ visibilityProperty: true })) sidebar.toggle();
    document.getElementById("search").focus();
  },
  "/": () => document.getElementById("settings").showModal(),
};

const SHIFTED = {
  o: () => document.getElementById("new-chat").click(),
  s: (sidebar) => sidebar.toggle(),
  c: () => [...document.querySelectorAll(".copy-message")].at(-1)?.click(),
};

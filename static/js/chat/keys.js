// Keyboard shortcuts, with the keys that other chat pages use.

export function setUpKeys(composer, sidebar) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") escape(event, composer, sidebar);
    else if (areOn() && !event.ctrlKey && !event.metaKey && !event.altKey && DECISIONS[event.key.toLowerCase()]) decide(event);
    else if (areOn() && (event.ctrlKey || event.metaKey) && !event.altKey) shortcut(event, sidebar);
  });
}

function areOn() {
  return document.getElementById("shortcuts-on").checked;
}

// Close the nearest open element, or stop the answer.
function escape(event, composer, sidebar) {
  if (document.querySelector("dialog:modal")) return;
  if (event.shiftKey) {
    composer.focus();
    return;
  }
  if (event.target.matches(".rename input, #search, .workstream-write input, .workstream-ask input")) return;
  const menu = document.querySelector(".menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  if (sidebar.close()) return;
  const panel = document.getElementById("file");
  if (panel?.open) {
    panel.close();
    return;
  }
  const stop = document.getElementById("stop");
  if (!stop.hidden) stop.click();
}

// Single letters work only while a request for approval has the focus.
function decide(event) {
  const approval = event.target.closest?.(".approval");
  if (!approval || event.target.matches("input, textarea")) return;
  event.preventDefault();
  approval.querySelector(`button[value="${DECISIONS[event.key.toLowerCase()]}"]`)?.click();
}

const DECISIONS = { a: "allow_once", d: "deny" };

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

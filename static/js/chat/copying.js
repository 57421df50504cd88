// Buttons that copy code, answers and secrets, wrap the lines of code, or show the other buttons of an answer.
const SHOWN = 1500;

// announce: tells screen readers what happened. root: contains the buttons.
export function setUpCopying(announce, root = document) {
  root.addEventListener("click", async (event) => {
    const wrap = event.target.closest(".wrap-code");
    if (wrap) wrap.setAttribute("aria-pressed", String(wrap.closest(".code").toggleAttribute("data-wrapped")));
    const more = event.target.closest(".more-answer");
    if (more) more.setAttribute("aria-expanded", String(more.parentElement.toggleAttribute("data-more")));
    const button = event.target.closest(".copy-code, .copy-message, .copy-value");
    if (!button) return;
    const done = await copy(textOf(button), button);
    announce(done ? "Copied" : "The browser does not allow copying");
    if (done) confirm(button);
  });
}

function textOf(button) {
  if (button.classList.contains("copy-code")) return button.closest(".code").querySelector("pre").textContent;
  if (button.classList.contains("copy-value")) return button.parentElement.querySelector("input").value;
  return button.parentElement.querySelector(".source").content.textContent;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text, button.parentElement); // no clipboard API without TLS
  }
}

// place: not the page's body, as nothing can be selected there while a dialog is open.
function copySelection(text, place) {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "sr-only";
  place.append(box);
  const focused = document.activeElement;
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  focused?.focus();
  return done;
}

function confirm(button) {
  if (!button.classList.contains("copy-message")) {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), SHOWN);
    return;
  }
  const use = button.querySelector("use");
  use.setAttribute("href", "#i-check");
  setTimeout(() => use.setAttribute("href", "#i-copy"), SHOWN);
}

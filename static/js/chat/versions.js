// Versions of a message: editing it in place, generating its answer again, and switching between them.
import { newId } from "./ids.js";

const SIDES = ["earlier", "later"];

export function setUpVersions(composer) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".edit-message");
    if (button) edit(button.closest(".turn"), composer);
  });
  document.body.addEventListener("htmx:configRequest", ({ target, detail }) => {
    if (target.matches(".regenerate")) detail.parameters.set("key", newId());
  });
}

// The switcher of the versions at a place of the session.
export function versionsAt(place) {
  return document.querySelector(`.versions[data-place="${place}"]`);
}

// The switcher's button that has the focus, as {place, side}.
export function focusedVersions() {
  const button = document.activeElement;
  const group = button?.closest?.(".versions");
  return group && { place: group.dataset.place, side: SIDES.find((side) => button.classList.contains(side)) };
}

// Focus the same button again, or the other one if there is nothing further on that side.
export function focusVersions({ place, side }) {
  const group = versionsAt(place);
  const wanted = group?.querySelector(`.${side}:enabled`) ?? group?.querySelector("button:enabled");
  wanted?.focus();
}

function edit(turn, composer) {
  const shown = turn.querySelector(".editing textarea");
  if (shown) {
    shown.focus();
    return;
  }
  const form = document.getElementById("editing-pattern").content.firstElementChild.cloneNode(true);
  const box = form.querySelector("textarea");
  const close = () => {
    form.remove();
    turn.toggleAttribute("data-editing", false);
  };
  const cancel = () => {
    close();
    turn.querySelector(".edit-message")?.focus();
  };
  box.value = turn.querySelector(".question .bubble").textContent;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, turn.dataset.run, box.value, () => {
      close();
      composer.focus();
    });
  });
  form.querySelector(".cancel").addEventListener("click", cancel);
  box.addEventListener("input", () => fit(box));
  box.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.stopPropagation(); // it would stop the answer
      cancel();
    } else if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  turn.toggleAttribute("data-editing", true);
  turn.querySelector(".question").after(form);
  fit(box);
  box.focus();
  box.setSelectionRange(box.value.length, box.value.length);
}

// Send the changed message. Why it was refused is shown above the message box.
function send(form, run, text, done) {
  const button = form.querySelector(".primary");
  if (button.disabled || !text.trim()) return;
  button.disabled = true;
  form.addEventListener(
    "htmx:afterRequest",
    ({ detail }) => {
      button.disabled = false;
      if (detail.successful) done();
    },
    { once: true },
  );
  const values = { text, key: newId() };
  htmx.ajax("POST", `/chat/runs/${run}/edit`, { source: form, target: form, swap: "none", values }).catch(() => {});
}

function fit(box) {
  if (CSS.supports("field-sizing", "content")) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

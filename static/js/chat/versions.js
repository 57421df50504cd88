// Versions of a message: editing it in place, generating its answer again, and switching between them. <komand-chat> edits
// and switches by the same functions.
import { newId } from "./ids.js";

const SIDES = ["earlier", "later"];

export function setUpVersions(composer) {
  document.addEventListener("click", (event) => {
    const turn = event.target.closest(".edit-message")?.closest(".turn");
    if (!turn) return;
    edit(turn, async (text, form) => {
      const isTaken = await send(form, turn.dataset.run, text);
      if (isTaken) composer.focus();
      return isTaken;
    });
  });
  document.body.addEventListener("htmx:configRequest", ({ target, detail }) => {
    if (target.matches(".regenerate")) detail.parameters.set("key", newId());
  });
}

// Replace the turns that are shown by those of another branch: the place of the change stays where it is, and the focus on
// the switcher's button, or on the other one if there is nothing further on that side.
// place: of the change, if the focus does not show it; replace(): shows the turns; shift(pixels): scrolls.
export function showBranch(log, place, replace, shift) {
  const focus = focusIn(log);
  const find = () => log.querySelector(`.versions[data-place="${focus?.place ?? place}"]`);
  const before = find()?.getBoundingClientRect().top;
  replace();
  const group = find();
  if (!group) return;
  if (before !== undefined) shift(group.getBoundingClientRect().top - before);
  if (focus) (group.querySelector(`.${focus.side}:enabled`) ?? group.querySelector("button:enabled"))?.focus({ preventScroll: true });
}

// The switcher's button that has the focus, as {place, side}.
function focusIn(log) {
  const button = log.getRootNode().activeElement;
  const group = button?.closest?.(".versions");
  return group && { place: group.dataset.place, side: SIDES.find((side) => button.classList.contains(side)) };
}

// Edit the message of a turn. send(text, form): asynchronous, returns whether the text was taken.
export function edit(turn, send) {
  const shown = turn.querySelector(".editing textarea");
  if (shown) {
    shown.focus();
    return;
  }
  const form = turn.getRootNode().getElementById("editing-pattern").content.firstElementChild.cloneNode(true);
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
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation(); // others answer requests
    const button = form.querySelector(".primary");
    if (button.disabled || !box.value.trim()) return;
    button.disabled = true;
    if (await send(box.value, form)) close();
    button.disabled = false;
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
function send(form, run, text) {
  const values = { text, key: newId() };
  return new Promise((resolve) => {
    form.addEventListener("htmx:afterRequest", ({ detail }) => resolve(detail.successful), { once: true });
    htmx.ajax("POST", `/chat/runs/${run}/edit`, { source: form, target: form, swap: "none", values }).catch(() => {});
  });
}

function fit(box) {
  if (CSS.supports("field-sizing", "content")) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

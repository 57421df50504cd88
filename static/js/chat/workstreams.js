// Workstreams: cards in the answer of the run that launched them, or in the card of the workstream that did.

import { countAround, groupWorkstreams, setUpGroups } from "./workstream-groups.js";

const byId = (id) => document.getElementById(id);

// The answer or the workstream that parts belong to.
export function ownerOf(parts) {
  return parts.closest(".workstream, .answer");
}

// Open everything that an element is folded in.
export function reveal(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

// Insert a part behind those of its step and the earlier ones.
export function insertByStep(parts, step, html) {
  const later = [...parts.children].find((other) => Number(other.dataset.step) > step);
  htmx.swap(later ?? parts, html, { swapStyle: later ? "beforebegin" : "beforeend" });
}

// Empty the box of a workstream once its message was sent.
export function setUpWorkstreams() {
  setUpGroups();
  document.body.addEventListener("htmx:afterRequest", ({ detail, target }) => {
    if (detail.successful && target.matches(".workstream-write")) target.reset();
  });
}

// Show a workstream below the call that launched it, or its state. Its end replaces what it was doing.
// parts: of the open run that launched it, null if that is not shown.
// foot: its buttons.
export function showWorkstream(parts, { id, call, step, html, head, foot, body }) {
  const card = byId(`workstream-${id}`);
  if (!card) {
    const launching = byId(`call-${call}`);
    if (parts && launching) htmx.swap(launching, html, { swapStyle: "afterend" });
    else if (parts) insertByStep(parts, call ? step : Infinity, html);
    if (parts) groupWorkstreams(parts);
  } else if (card.hasAttribute("data-open")) {
    htmx.swap(byId(`workstream-head-${id}`), head, { swapStyle: "outerHTML" });
    if (body) end(card, body);
    else htmx.swap(byId(`workstream-foot-${id}`), foot, { swapStyle: "outerHTML" });
  }
  countAround(byId(`workstream-${id}`));
}

// What the reader has opened stays open.
function end(card, html) {
  const opened = [...card.querySelectorAll("details[open][id]")].map((fold) => fold.id);
  card.toggleAttribute("data-open", false);
  htmx.swap(card.querySelector(".workstream-body"), html, { swapStyle: "outerHTML" });
  for (const id of opened) byId(id)?.toggleAttribute("open", true);
}

// Workstreams: cards in the answer of the run that launched them, or in the card of the workstream that did.

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

// Set up the forms of workstreams, and the panel with their tree. A page without workstreams loads no script for them.
export function setUpWorkstreams() {
  const { body } = document;
  body.addEventListener("htmx:afterRequest", ({ detail, target }) => {
    if (detail.successful && target.matches(".workstream-write, .workstream-ask")) target.reset();
  });
  body.addEventListener("htmx:afterSwap", ({ target }) => target.matches(".group-result") && showSent(target));
  byId("open-team")?.addEventListener("click", () => import("./team.js").then(({ openTeam }) => openTeam()));
  if (document.querySelector(".workstream-group")) import("./workstream-groups.js");
  offerTeam();
}

function offerTeam() {
  const button = byId("open-team");
  if (button?.hidden && document.querySelector("#log .workstream")) button.hidden = false;
}

// Show a message to several workstreams in their cards.
function showSent(result) {
  const sent = result.querySelector("template");
  for (const id of sent?.dataset.runs.split(" ") ?? []) byId(`parts-${id}`)?.append(sent.content.cloneNode(true));
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
    offerTeam();
  } else if (card.hasAttribute("data-open")) {
    htmx.swap(byId(`workstream-head-${id}`), head, { swapStyle: "outerHTML" });
    if (body) end(card, body);
    else htmx.swap(byId(`workstream-foot-${id}`), foot, { swapStyle: "outerHTML" });
  }
  import("./workstream-groups.js").then(({ groupAround }) => groupAround(byId(`workstream-${id}`)));
  if (byId("team").open) import("./team.js").then(({ refreshTeam }) => refreshTeam());
}

// What the reader has opened stays open.
function end(card, html) {
  const opened = [...card.querySelectorAll("details[open][id]")].map((fold) => fold.id);
  card.toggleAttribute("data-open", false);
  htmx.swap(card.querySelector(".workstream-body"), html, { swapStyle: "outerHTML" });
  for (const id of opened) byId(id)?.toggleAttribute("open", true);
}

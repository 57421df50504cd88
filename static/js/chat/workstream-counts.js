// The status of an answer that waits for its workstreams: how many are done, and which of them wait for the user.
import { pendingIn } from "./needs.js";

const MOST_NAMES = 3;

// log: contains the answers.
export function showCounts(log) {
  for (const status of log.querySelectorAll(".answer .status[data-workstreams]")) show(status);
}

function show(status) {
  const cards = [...status.closest(".answer").querySelectorAll(".workstream")].filter(isOfAnswer);
  if (!cards.length) return;
  const ended = cards.filter((card) => !card.hasAttribute("data-open"));
  const areDone = ended.every((card) => card.querySelector(":scope > summary .call-state.is-done"));
  const asking = cards.filter((card) => pendingIn(card).length).map(nameOf);
  const noun = cards.length === 1 ? "workstream" : "workstreams";
  const verb = ended.length === 1 ? ["is", "has"] : ["are", "have"];
  const counted = `${ended.length} of ${cards.length} ${noun} ${areDone ? `${verb[0]} done` : `${verb[1]} ended`}.`;
  const waiting = asking.length ? [" ", ...listed(asking), asking.length === 1 ? " waits for you." : " wait for you."] : [];
  const text = status.querySelector(".status-text");
  text.replaceChildren(counted, ...waiting, text.querySelector(".countdown"));
}

function isOfAnswer(card) {
  return !card.parentElement.closest(".workstream");
}

function nameOf(card) {
  const name = card.querySelector(":scope > summary .workstream-name").cloneNode(true);
  name.querySelector(".sr-only")?.remove();
  return name.textContent;
}

// Return names as nodes: **Prices**, **Region** and 2 more.
function listed(names) {
  const parts = names.slice(0, MOST_NAMES).map(strong);
  if (names.length > MOST_NAMES) parts.push(`${names.length - MOST_NAMES} more`);
  return parts.flatMap((part, place) => (place ? [place === parts.length - 1 ? " and " : ", ", part] : [part]));
}

function strong(name) {
  const made = document.createElement("strong");
  made.dir = "auto";
  made.textContent = name;
  return made;
}

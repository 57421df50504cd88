// Requests that wait for a person: where they are on the page.
import { reveal } from "./workstreams.js";

const PENDING = ".approval[data-pending], .is-question:not([data-over]):has(> summary .call-state:is(.is-waiting, .is-running))";

// Return the requests for approval and the questions below an element that wait for the user.
export function pendingIn(element) {
  return [...element.querySelectorAll(PENDING)];
}

// Unfold an element, scroll to it and focus it.
export function jumpTo(element) {
  reveal(element);
  element.scrollIntoView({ block: "center" });
  const target = element.matches("[tabindex]") ? element : element.querySelector("button.answer-choice, input, summary");
  target?.focus({ preventScroll: true });
}

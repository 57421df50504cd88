// What waits for the user: in the title, above the message box, and where it is on the page.
import { reveal } from "./workstreams.js";

const byId = (id) => document.getElementById(id);
const PENDING = ".approval[data-pending]:has(.approval-choices), " +
  ".call:is(.is-question, :has(> .call-body > .input-request button)):not([data-over], [data-answered]):has(> summary .call-state:is(.is-waiting, .is-running))";

// Return the requests for approval and the questions below an element that wait for the user.
export function pendingIn(element) {
  return [...element.querySelectorAll(PENDING)];
}

let title = "";

// Show in the title how many chats wait for the user, and above the message box what waits here and elsewhere.
export function showNeeds() {
  const log = byId("log");
  const here = log ? pendingIn(log).length : 0;
  const others = document.querySelectorAll("#sessions a:not([aria-current]):has(.asks)").length;
  title ||= document.title;
  const count = others + (here ? 1 : 0);
  document.title = count ? `(${count}) ${title}` : title;
  const banner = byId("needs");
  if (!banner) return;
  const texts = [];
  if (here) texts.push(`${here} ${here === 1 ? "request waits" : "requests wait"} for you`);
  if (others) texts.push(`${others} other ${others === 1 ? "chat waits" : "chats wait"} for you`);
  const text = texts.join(" · ");
  const status = banner.querySelector("[role=status]");
  if (status.textContent !== text) status.textContent = text;
  banner.hidden = !text;
  byId("needs-show").hidden = !here;
  byId("needs-show").onclick = () => jumpTo(pendingIn(log)[0]);
}

// Unfold an element, scroll to it and focus it.
export function jumpTo(element) {
  reveal(element);
  element.scrollIntoView({ block: "center" });
  const choice = element.matches(".call") && element.querySelector(".answer-choice, .input-request input");
  const target = element.matches("[tabindex]") ? element : choice || element.querySelector("summary");
  target?.focus({ preventScroll: true });
}

// Sets up the page with the requests that wait for the user.
import { showNeeds } from "./needs.js";
import { setUpPreferences } from "./preferences.js";
import { setUpRequests } from "./requests.js";
import { setUpSidebar } from "./sidebar.js";

const list = document.getElementById("waiting");
const sidebar = setUpSidebar();
let asking = askingChats();

setUpRequests();
setUpPreferences();
showNeeds();

// What was decided or answered leaves the list.
list.addEventListener("htmx:afterRequest", ({ detail, target }) => {
  if (!detail.successful || target === list) return;
  document.getElementById("announcer").textContent = "Sent.";
  sidebar.refreshSoon();
  htmx.trigger(list, "refresh");
});

// Another chat begins to wait, or another device has answered.
document.getElementById("sessions").addEventListener("htmx:afterSettle", () => {
  const now = askingChats();
  if (now === asking) return;
  asking = now;
  const isInUse = [...list.querySelectorAll("input")].some((input) => input.type === "text" && input.value);
  if (!isInUse) htmx.trigger(list, "refresh");
});

function askingChats() {
  return [...document.querySelectorAll("#sessions .session:has(.asks)")].map(({ id }) => id).sort().join();
}

// A and D decide the request that has the focus.
document.addEventListener("keydown", (event) => {
  const choice = { a: "allow_once", d: "deny" }[event.key.toLowerCase()];
  const request = event.target.closest?.(".approval");
  if (!choice || !request || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
  if (!document.getElementById("shortcuts-on").checked) return;
  event.preventDefault();
  request.querySelector(`button[value="${choice}"]`)?.click();
});

// The choice among many agents: a dialog that searches them.

const byId = (id) => document.getElementById(id);

// Show the agent as chosen. name: of one that the menu may not list.
export function showAgent(id, name = id) {
  const menu = byId("agent");
  if (![...menu.options].some((option) => option.value === id)) menu.add(new Option(name, id));
  menu.value = id;
}

export function setUpAgents() {
  // Once the first message is sent, the greeting is gone, and another agent's arrives too late.
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target.id === "starters" && !byId("welcome")) detail.shouldSwap = false;
  });
  const dialog = byId("agents");
  if (!dialog) return; // the menu lists all agents
  const search = byId("agents-search");
  const list = byId("agents-list");
  let takesFirst = false; // of the list that the next response brings

  byId("open-agents").hidden = false;
  byId("open-agents").addEventListener("click", () => {
    dialog.showModal();
    htmx.trigger(search, "refresh");
  });
  list.addEventListener("click", (event) => {
    const found = event.target.closest("[data-agent]");
    if (found) choose(dialog, found.dataset);
  });
  // Enter chooses the first agent that is found. The list may be older than the last letter.
  byId("agents-form").addEventListener("submit", (event) => {
    event.preventDefault();
    takesFirst = true;
    htmx.trigger(search, "refresh");
  });
  list.addEventListener("htmx:afterSettle", () => {
    if (takesFirst) list.querySelector("[data-agent]")?.click();
    takesFirst = false;
  });
  dialog.addEventListener("close", () => {
    takesFirst = false;
  });
  dialog.addEventListener("keydown", (event) => move(event, [search, ...list.querySelectorAll("[data-agent]")]));
}

function choose(dialog, { agent, name }) {
  showAgent(agent, name);
  dialog.close();
  byId("agent").dispatchEvent(new Event("change", { bubbles: true }));
  byId("agent").focus();
}

// The arrow keys move between the search and the agents.
function move(event, places) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const next = places[places.indexOf(event.target) + step];
  if (!step || !places.includes(event.target) || !next) return;
  event.preventDefault();
  next.focus();
}

// Groups of tool calls: those of one step that need nobody are one line that unfolds. The server groups those that it renders
// by the same rule (call_groups.py).

// Put a new call into the group of its step, or begin one with the call before it.
export function groupCall(card) {
  const before = card.previousElementSibling;
  if (!card.matches("[data-groups]") || before?.dataset.step !== card.dataset.step) return;
  if (before.matches(".calls")) add(before, card);
  else if (before.matches(".call[data-groups]:not(:has(.approval, [data-bad]))")) add(begin(before), card);
}

function begin(card) {
  const group = card.getRootNode().getElementById("calls-pattern").content.firstElementChild.cloneNode(true);
  group.id = card.id.replace("call-", "calls-");
  group.dataset.step = card.dataset.step;
  group.open = card.open;
  card.before(group);
  group.querySelector(".calls-body").append(card);
  return group;
}

function add(group, card) {
  const body = group.querySelector(".calls-body");
  body.append(card);
  const names = [...body.children].map((call) => call.querySelector(".call-name").textContent);
  group.querySelector(":scope > summary .call-name").textContent = `${names.length} tools`;
  group.querySelector(":scope > summary .call-brief").textContent = [...new Set(names)].join(", ");
}

// Show the state of a group: its slowest call.
export function showGroupState(card) {
  const group = card.parentElement.closest(".calls");
  if (!group) return;
  const calls = [...group.querySelector(".calls-body").children];
  const running = calls.filter((call) => !call.hasAttribute("data-over")).length;
  group.querySelector(".calls-took").textContent = running ? `${running} running` : "done";
}

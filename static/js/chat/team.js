// The panel with the tree of workstreams. Loaded when it is opened for the first time.
import { jumpTo, pendingIn } from "./needs.js";

const REFRESH = 600; // milliseconds
const byId = (id) => document.getElementById(id);
const dialog = byId("team");
const list = byId("team-list");
let timer = 0;
let kept = { opened: [], focused: "", results: new Map() };

export function openTeam() {
  dialog.showModal();
  htmx.trigger(list, "refresh");
}

// Show the present state, unless the user is writing.
export function refreshTeam() {
  if (!dialog.open || timer) return;
  timer = setTimeout(() => {
    timer = 0;
    if (dialog.open && !isInUse()) htmx.trigger(list, "refresh");
  }, REFRESH);
}

function isInUse() {
  return [...list.querySelectorAll('input[name="text"]')].some((input) => input.value);
}

list.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target !== list) return;
  if (isInUse()) event.detail.shouldSwap = false;
  const results = [...list.querySelectorAll(".group-result")].filter((result) => result.textContent.trim());
  kept = {
    opened: [...list.querySelectorAll("details[open]")].map(({ id }) => id),
    focused: focusedPath(),
    results: new Map(results.map((result) => [runsOf(result), result])),
  };
});

list.addEventListener("htmx:afterSettle", (event) => {
  if (event.target !== list) return;
  for (const id of kept.opened) byId(id)?.toggleAttribute("open", true);
  for (const result of list.querySelectorAll(".group-result")) {
    const before = kept.results.get(runsOf(result));
    if (before) result.replaceWith(before);
  }
  if (kept.focused) list.querySelector(kept.focused)?.focus();
});

// The place of a result: the workstream that it is of, or empty for all.
function runsOf(result) {
  return result.closest("details")?.id ?? "";
}

// A selector of the element with the focus, which the next list has too.
function focusedPath() {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  if (!focused) return "";
  const member = focused.closest("details");
  const own = focused.id ? `#${focused.id}` : focused.localName + (focused.value ? `[value="${focused.value}"]` : "");
  return member && !focused.id ? `#${member.id} > ${focused.localName === "summary" ? "" : "* > "}${own}` : own;
}

dialog.addEventListener("click", (event) => {
  const link = event.target.closest(".team-go");
  const target = link && (byId(`workstream-${link.dataset.card}`) ?? byId(`turn-${link.dataset.turn}`));
  if (!target) return; // of an older answer, which its address shows
  event.preventDefault();
  dialog.close();
  jumpTo(link.dataset.card ? (pendingIn(target)[0] ?? target) : target);
});

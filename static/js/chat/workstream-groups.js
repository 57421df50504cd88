// Groups of workstreams: those of one launch, and those of one agent with numbered names. The server groups those that
// it renders by the same rule (workstream_groups.py).

const LEAST = 3; // cards of a group
const COUNTED = { "is-done": "done", "is-failed": "failed", "is-timed-out": "timed out", "is-cancelled": "stopped" };

// Group a card with those like it, and count the workstreams of the groups around it by their states.
export function groupAround(card) {
  if (card && !card.parentElement.matches(".group-cards")) group(card.parentElement);
  for (let around = card?.closest(".workstream-group"); around; around = around.parentElement.closest(".workstream-group")) count(around);
}

// parts: of an answer or a workstream.
function group(parts) {
  const cards = [...parts.querySelectorAll(":scope > .workstream, :scope > .workstream-group > .group-body > .group-cards > .workstream")];
  const batches = alike(cards, "batch");
  const kin = alike(cards.filter((card) => !batches.flat().includes(card)), "kin");
  for (const cards of [...batches, ...kin]) gather(cards);
}

function alike(cards, name) {
  const found = Map.groupBy(cards, ({ dataset }) => dataset[name] ?? "");
  found.delete("");
  return [...found.values()].filter((group) => group.length >= LEAST);
}

function gather(cards) {
  let group = cards.map((card) => card.parentElement.closest(".group-cards")?.closest(".workstream-group")).find(Boolean);
  if (!group) {
    group = document.getElementById("group-pattern").content.firstElementChild.cloneNode(true);
    group.id = `group-${cards[0].id.replace("workstream-", "")}`;
    group.dataset.step = cards[0].dataset.step;
    cards[0].before(group);
    htmx.process(group);
  }
  const inside = group.querySelector(".group-cards");
  for (const card of cards) {
    if (card.parentElement === inside) continue;
    inside.append(card);
    group.open ||= card.open; // it may have been opened for a question
  }
  count(group);
}

function count(group) {
  const cards = [...group.querySelector(".group-cards").children];
  const counts = new Map([...Object.values(COUNTED), "running"].map((label) => [label, 0]));
  let asking = 0;
  for (const card of cards) {
    if (card.querySelector(".call-state.is-asks")) asking += 1;
    else {
      const state = card.querySelector(":scope > summary .call-state");
      const label = COUNTED[Object.keys(COUNTED).find((name) => state.classList.contains(name))] ?? "running";
      counts.set(label, counts.get(label) + 1);
    }
  }
  const texts = [...counts].filter(([, number]) => number).map(([label, number]) => `${number} ${label}`);
  if (asking) texts.push(`${asking} wait${asking === 1 ? "s" : ""} for you`);
  const kin = new Set(cards.map((card) => card.dataset.kin ?? ""));
  const shared = kin.size === 1 ? [...kin][0].replace(/^[^/]*\//, "") : "";
  group.querySelector(":scope > summary .workstream-name").textContent = shared ? `${cards.length} × ${shared}` : `${cards.length} workstreams`;
  group.querySelector(":scope > summary .group-counts").textContent = texts.join(", ");
}

// Requests to a group go to those of its workstreams that work.
document.body.addEventListener("htmx:configRequest", ({ detail, target }) => {
  const group = target.matches(".workstream-ask") && target.closest(".workstream-group");
  if (!group) return;
  const cards = group.querySelectorAll(":scope > .group-body > .group-cards > .workstream[data-open]");
  detail.parameters.set("runs", [...cards].map((card) => card.id.replace("workstream-", "")).join(","));
});

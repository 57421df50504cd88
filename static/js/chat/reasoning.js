// The reasoning of steps: folds that grow while the model thinks, with the time that it takes.

const PARTS = ".text, .call"; // come behind the reasoning of their step

// Add a piece of a step's reasoning. parts: the element with the parts of the open answer.
export function showReasoning(parts, { run, step, offset, text }) {
  const id = `reasoning-${run}-${step}`;
  const root = parts.getRootNode();
  let fold = root.getElementById(id);
  if (fold && !fold.hasAttribute("data-live")) return; // the page has the stored one
  if (!fold) {
    fold = root.getElementById("reasoning-pattern").content.firstElementChild.cloneNode(true);
    fold.id = id;
    fold.dataset.step = step;
    fold.dataset.since = Date.now();
    const later = [...parts.children].find((other) => Number(other.dataset.step) >= step);
    parts.insertBefore(fold, later ?? null);
  }
  const length = Number(fold.dataset.length ?? 0); // in code points
  const points = Array.from(text).slice(Math.max(0, length - offset));
  fold.querySelector(".reasoning-text").append(points.join(""));
  fold.dataset.length = Math.max(length, offset) + points.length;
}

export function discardReasoning(run, step, root = document) {
  root.getElementById(`reasoning-${run}-${step}`)?.remove();
}

// Update the times. A fold whose step has text or calls is complete.
export function timeReasoning(root) {
  for (const fold of root.querySelectorAll(".reasoning[data-live]:not([data-done])")) {
    const seconds = Math.max(1, Math.round((Date.now() - fold.dataset.since) / 1000));
    const isDone = [...fold.parentElement.querySelectorAll(PARTS)].some((part) => part.dataset.step === fold.dataset.step);
    fold.toggleAttribute("data-done", isDone);
    fold.querySelector(".reasoning-label").textContent = isDone ? `Thought for ${seconds} s` : `Thinking… ${seconds} s`;
  }
}

// Shows Mermaid diagrams, each in a frame without an origin, which draws it. Loaded with the first diagram.

const LONGEST_WAIT = 15_000; // milliseconds until a frame that does not answer is removed
const MOST_HEIGHT = 4000; // pixels
const frames = new Map(); // frame → { code, source, timer }

// labels: the elements that name the language of a code block.
export function showDiagrams(labels) {
  for (const label of labels) show(label.closest(".code"));
}

function show(code) {
  if (!code?.isConnected || code.hasAttribute("data-diagram")) return;
  code.toggleAttribute("data-diagram", true);
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.className = "diagram";
  frame.title = "Diagram";
  frame.tabIndex = -1;
  frame.src = "/chat/diagram";
  const timer = setTimeout(() => remove(frame), LONGEST_WAIT);
  frames.set(frame, { code, source: code.querySelector("pre").textContent, timer });
  code.querySelector(".code-head").after(frame);
}

// The source stays if the diagram cannot be drawn.
function remove(frame) {
  clearTimeout(frames.get(frame)?.timer);
  frames.delete(frame);
  frame.remove();
}

addEventListener("message", ({ source: from, data }) => {
  const frame = [...frames.keys()].find(({ contentWindow }) => contentWindow === from);
  if (!frame || typeof data !== "object" || !data) return;
  const { code, source, timer } = frames.get(frame);
  if (data.ready) from.postMessage({ source, dark: isDark() }, "*"); // an opaque origin has no name
  else if (Number(data.height) > 0) {
    clearTimeout(timer);
    frame.style.height = `${Math.min(Math.ceil(Number(data.height)), MOST_HEIGHT)}px`;
    frame.toggleAttribute("data-drawn", true);
    addSwitch(code);
  } else remove(frame);
});

function addSwitch(code) {
  if (code.querySelector(".show-source")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code show-source";
  button.textContent = "Source";
  const set = (shown) => {
    button.setAttribute("aria-pressed", String(shown));
    code.querySelector("pre").hidden = !shown;
  };
  button.addEventListener("click", (event) => {
    event.stopPropagation(); // it copies nothing
    set(button.getAttribute("aria-pressed") === "false");
  });
  set(false);
  code.querySelector(".code-head > span").after(button);
}

function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (document.documentElement.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

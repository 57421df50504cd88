// Shows formulas by KaTeX. A formula that it refuses keeps its source. Loaded with the first formula.

const vendor = new URL("../../vendor/katex/", import.meta.url).href;
// trust: no links, no images, no classes. maxSize, maxExpand: a formula stays in its place and ends.
const OPTIONS = {
  output: "htmlAndMathml",
  trust: false,
  strict: "ignore",
  maxSize: 20,
  maxExpand: 500,
  throwOnError: true,
  errorColor: "currentcolor",
};
let loaded = null;

export async function showMaths(elements) {
  await (loaded ??= Promise.all([loadScript(`${vendor}katex.min.js`), loadStylesheet(`${vendor}katex.min.css`)]));
  for (const element of elements) show(element);
}

function show(element) {
  if (!window.katex || !element.isConnected || element.dataset.source !== undefined) return;
  const source = element.textContent.trim();
  const [, , formula] = /^(\$\$?|\\[([])([\s\S]*?)(\$\$?|\\[)\]])$/.exec(source) ?? [];
  element.dataset.source = source;
  if (!formula) return;
  const shown = document.createElement(element.localName);
  try {
    window.katex.render(formula, shown, { ...OPTIONS, displayMode: /^(\$\$|\\\[)/.test(source) });
  } catch {
    return; // its source stays
  }
  element.replaceChildren(...shown.childNodes);
  element.classList.add("is-shown");
}

function loadScript(src) {
  return new Promise((resolve) => {
    const script = Object.assign(document.createElement("script"), { src });
    script.onload = script.onerror = resolve;
    document.head.append(script);
  });
}

function loadStylesheet(href) {
  return new Promise((resolve) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
    link.onload = link.onerror = resolve;
    document.head.append(link);
  });
}

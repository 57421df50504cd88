// Finds formulas and diagrams in finished blocks. What shows them is loaded with the first one.

// Show the formulas and diagrams in some elements, each once. An open block stays as it is.
export function showFormulas(elements) {
  for (const element of elements) {
    const maths = found(element, ".math:not([data-source])");
    if (maths.length) import("./maths.js").then(({ showMaths }) => showMaths(maths));
    const diagrams = found(element, ".code-head > span").filter(({ textContent }) => textContent === "mermaid");
    if (diagrams.length) import("./diagrams.js").then(({ showDiagrams }) => showDiagrams(diagrams));
  }
}

function found(element, selector) {
  return [...(element.matches(selector) ? [element] : []), ...element.querySelectorAll(selector)];
}

export function setUpFormulas() {
  document.body.addEventListener("htmx:load", ({ target }) => showFormulas([target]));
  showFormulas([document.body]);
}

// Shows the quote of a source at the marks that cite it.

export function setUpCitations() {
  document.addEventListener("mouseover", ({ target }) => {
    if (!target.classList?.contains("cited") || target.title) return;
    const numbers = target.textContent.match(/\d+/g) ?? [];
    const sources = numbers.map((number) => target.closest(".answer")?.querySelector(`.sources li[value="${number}"]`));
    target.title = sources.map((source) => source?.innerText.replace(/\s+/g, " ").trim() ?? "").join("\n").trim();
  });
}

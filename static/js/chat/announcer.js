// What screen readers announce.

const LONGEST = 300; // characters of an answer

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

// Return the beginning of an answer as plain text.
export function beginningOf(answer) {
  const texts = [...answer.querySelectorAll(":scope > .parts > .text")].map((text) => {
    const shown = text.cloneNode(true);
    for (const button of shown.querySelectorAll("button")) button.remove();
    for (const end of shown.querySelectorAll("p, li, h3, h4, h5, h6, td, th, br, pre, .code-head")) end.append(" ");
    return shown.textContent;
  });
  const text = texts.join(" ").replace(/\s+/g, " ").trim();
  if (text.length <= LONGEST) return text;
  return `${text.slice(0, LONGEST).replace(/\s\S*$/, "")}… The full answer is above.`;
}

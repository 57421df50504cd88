// Editing a message in place, which begins another version of the conversation from there.

// pattern: the page's template of the form. send(text): asynchronous.
export function edit(turn, pattern, send) {
  const shown = turn.querySelector(".editing textarea");
  if (shown) return shown.focus();
  const form = pattern.content.firstElementChild.cloneNode(true);
  const box = form.querySelector("textarea");
  const close = () => {
    form.remove();
    turn.toggleAttribute("data-editing", false);
    turn.querySelector(".edit-message")?.focus();
  };
  box.value = turn.querySelector(".question .bubble").textContent;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const text = box.value.trim();
    if (!text) return;
    close();
    send(text);
  });
  form.querySelector(".cancel").addEventListener("click", close);
  box.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.stopPropagation(); // it would close the chat
      close();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  turn.toggleAttribute("data-editing", true);
  turn.querySelector(".question").after(form);
  box.focus();
}

// Enter sends from the first moment on: until the rest of the scripts is there, as the form does without any.
document.addEventListener("keydown", (event) => {
  const box = event.target;
  if (box.id !== "message" || event.defaultPrevented || event.isComposing) return;
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (box.value.trim()) box.form.requestSubmit();
});

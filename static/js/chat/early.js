// Enter sends a message as a plain form until the other scripts are loaded.
document.addEventListener("keydown", (event) => {
  const box = event.target;
  if (box.id !== "message" || event.defaultPrevented || event.isComposing) return;
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (box.value.trim()) box.form.requestSubmit();
});

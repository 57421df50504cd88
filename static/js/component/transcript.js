// The dialog by which a visitor has the conversation sent by mail.

// Return a function that opens it. send(address): asynchronous.
export function setUpTranscript(dialog, send) {
  const [form, field, problem] = ["form", "input", "[role=alert]"].map((name) => dialog.querySelector(name));
  dialog.querySelector(".kc-no").addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const address = field.value.trim();
    const button = dialog.querySelector(".kc-yes");
    button.disabled = true;
    problem.textContent = "";
    try {
      await send(address);
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });
  return () => {
    problem.textContent = "";
    dialog.showModal();
    field.focus();
  };
}

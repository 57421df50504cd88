// The panel that shows one file: beside the chat, on narrow screens over it. Loaded when a file is opened first.
import { loadStyles } from "./styles.js";

const byId = (id) => document.getElementById(id);
const dialog = byId("file");
const wide = matchMedia("(min-width: 1100px)");
let opener = null;

// Show the file of an address below /chat.
export async function openFile(address) {
  if (!dialog.open) opener = document.activeElement;
  await Promise.all([loadStyles("file-panel.css"), load(address)]);
  if (!byId("file-title")) return; // refused: the reason is above the message box
  if (!dialog.open) show();
  byId("file-title").focus();
}

// Show the file again if the list has another content of it, unless an earlier version is shown.
export function refreshFile() {
  const { file, sha, version } = dialog.querySelector("[data-file]")?.dataset ?? {};
  const listed = file && byId("files-list").querySelector(`[data-file="${file}"]`);
  if (listed && listed.dataset.sha !== sha && !version) load(`/chat/files/${file}`);
}

function load(address) {
  return htmx.ajax("GET", address, { target: dialog, swap: "innerHTML" });
}

function show() {
  if (wide.matches) dialog.show();
  else dialog.showModal();
  document.body.toggleAttribute("data-file", wide.matches);
}

dialog.addEventListener("click", ({ target }) => target.closest("#close-file") && dialog.close());
dialog.addEventListener("close", () => {
  document.body.removeAttribute("data-file");
  dialog.replaceChildren();
  const lost = document.activeElement === document.body;
  if (lost) (opener?.isConnected && opener.checkVisibility() ? opener : byId("open-files")).focus();
});
wide.addEventListener("change", () => {
  if (!dialog.open) return;
  const shown = [...dialog.childNodes];
  dialog.addEventListener("close", () => {
    dialog.append(...shown);
    show();
  }, { once: true });
  dialog.close();
});

// The files of the session: a dialog with their list, which is kept up to date, and the panel that shows one of them.

const byId = (id) => document.getElementById(id);

// announce: sends a text to screen readers.
export function setUpFiles(announce) {
  const dialog = byId("files");
  document.body.addEventListener("click", (event) => {
    const image = event.target.closest(".open-image");
    if (image && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      import("./lightbox.js").then(({ openImage }) => openImage(image));
    }
    const opener = event.target.closest(".open-file");
    if (!opener) return;
    if (dialog.open) dialog.close();
    const { url, path } = opener.dataset;
    const address = url ?? `/chat/${document.body.dataset.session}/file?path=${encodeURIComponent(path)}`;
    import("./file-panel.js").then(({ openFile }) => openFile(address));
  });
  if (!dialog) return; // a new chat has no files
  byId("open-files").addEventListener("click", () => dialog.showModal());
  byId("files-list").addEventListener("htmx:afterSwap", count);
  dialog.addEventListener("click", (event) => {
    const origin = event.target.closest("a.file-origin[href^='#']");
    if (!origin) return;
    event.preventDefault();
    dialog.close();
    if (!reveal(origin.hash.slice(1))) announce("This is in an older message. Show older messages first.");
  });
}

// Apply a frame with the list of files.
export function showFiles({ html }) {
  const list = byId("files-list");
  if (!list) return;
  htmx.swap(list, html, { swapStyle: "innerHTML" });
  count();
  if (byId("file").open) import("./file-panel.js").then(({ refreshFile }) => refreshFile());
}

function count() {
  byId("files-count").textContent = document.querySelectorAll("#files-list li").length || "";
}

// Scroll to the call that wrote a file; if the page does not show it, scroll to the older messages and return false.
function reveal(id) {
  const place = byId(id) ?? byId("older");
  place?.closest("details")?.toggleAttribute("open", true);
  place?.scrollIntoView({ block: "center" });
  place?.querySelector("summary, button")?.focus({ preventScroll: true });
  return place?.id === id;
}

// The files of the session: a list that opens over the page and stays true while it is open.

const byId = (id) => document.getElementById(id);

// announce: says something to those who listen to the page.
export function setUpFiles(announce) {
  const dialog = byId("files");
  if (!dialog) return; // a new chat has none
  byId("open-files").addEventListener("click", () => dialog.showModal());
  byId("files-list").addEventListener("htmx:afterSwap", count);
  dialog.addEventListener("click", (event) => {
    const origin = event.target.closest("a.file-origin");
    if (!origin) return;
    event.preventDefault();
    dialog.close();
    if (!reveal(origin.hash.slice(1))) announce("That is further up: show older messages first.");
  });
}

// Apply what the server tells of the files.
export function showFiles({ html }) {
  const list = byId("files-list");
  if (!list) return;
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  htmx.swap(list, html, { swapStyle: "innerHTML" });
  count();
  if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

function count() {
  byId("files-count").textContent = document.querySelectorAll("#files-list li").length || "";
}

// Go to the call that wrote a file. False when the page does not show it: then to where older ones are to be had.
function reveal(id) {
  const place = byId(id) ?? byId("older");
  place?.closest("details")?.toggleAttribute("open", true);
  place?.scrollIntoView({ block: "center" });
  place?.querySelector("summary, button")?.focus({ preventScroll: true });
  return place?.id === id;
}

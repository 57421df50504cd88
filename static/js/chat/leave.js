// What leaves the page: export, links to share, print. And the mark of the chat as read when its reader leaves.

const byId = (id) => document.getElementById(id);

const LEFT = "komand-left"; // the chat that this tab has shown before
const MARKED = 1000;

// refreshList: refreshes the list of chats.
export function setUpLeaving(refreshList) {
  // The list may have been made before the mark of leaving was stored.
  const left = document.querySelector(`#session-${sessionStorage.getItem(LEFT)} .unread`);
  if (left) setTimeout(refreshList, MARKED);
  addEventListener("beforeprint", unfold);
  addEventListener("afterprint", fold);
  const dialog = byId("leave");
  if (!dialog) return; // a new chat has nothing to take along
  byId("open-leave").addEventListener("click", () => dialog.showModal());
  dialog.addEventListener("click", (event) => {
    if (event.target.closest(".leave-print")) {
      dialog.close();
      print();
    } else if (event.target.closest(".leave-copy")) copy(event.target);
  });
  dialog.addEventListener("close", () => byId("leave-body").replaceChildren()); // a new link is shown once
  markOnLeaving();
}

async function copy(button) {
  const field = byId("leave-address");
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press Ctrl+C"; // without TLS, browsers let no script copy
  }
}

let unfolded = [];

function unfold() {
  unfolded = [...document.querySelectorAll("#log details:not([open])")];
  for (const details of unfolded) details.open = true;
}

function fold() {
  for (const details of unfolded) details.open = false;
  unfolded = [];
}

// Tell the server when the reader leaves a chat in which something is new to the mark: only what comes later is unread.
function markOnLeaving() {
  let isNew = true;
  const leave = () => {
    if (!isNew) return;
    isNew = false;
    sessionStorage.setItem(LEFT, document.body.dataset.session);
    const form = new FormData();
    form.set("as", "read");
    form.set("csrfmiddlewaretoken", document.querySelector("meta[name=csrf-token]").content);
    navigator.sendBeacon(`/chat/${document.body.dataset.session}/mark`, form);
  };
  const arrived = () => {
    isNew = true;
  };
  document.body.addEventListener("komand:answered", arrived);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") leave();
    else arrived();
  });
  addEventListener("pagehide", leave);
  byId("sessions").addEventListener("click", (event) => {
    const { current } = event.target.closest("[data-mark]")?.dataset ?? {};
    if (current !== undefined) isNew = false; // marked by hand
  });
}

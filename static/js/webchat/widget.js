// The page of the chat that sites show in a frame: the component, whose conversation the site keeps.

import { ownStore, siteStore } from "./store.js";

const page = document.body;
const given = new URLSearchParams(location.hash.slice(1));
const isFramed = window.parent !== window;

// The component's script runs after this one, and takes these properties.
const chat = document.querySelector("komand-chat");
chat.user = { userId: given.get("userId") || "", userHash: given.get("userHash") || "", name: given.get("name") || "" };
chat.store = isFramed ? siteStore(given.get("saved")) : ownStore(chat.getAttribute("account"));
chat.toggleAttribute("closable", isFramed);
if (isFramed) {
  chat.page = JSON.parse(given.get("page") || "{}");
  try {
    chat.texts = JSON.parse(given.get("texts") || "{}");
  } catch {
    console.error("Komand: data-texts of the chat's script is no JSON");
  }
}
addEventListener("message", ({ source, data }) => {
  if (source === window.parent && data?.komand === "page") chat.page = data.page;
});
if (page.dataset.accent) chat.style.setProperty("--komand-accent", page.dataset.accent);

chat.addEventListener("komand-close", () => window.parent.postMessage({ komand: "close" }, "*"));
document.addEventListener("keydown", (event) => {
  const isAsking = chat.shadowRoot?.querySelector("dialog[open]");
  if (event.key === "Escape" && isFramed && !event.isComposing && !isAsking) chat.close();
});
// The site's button gives the focus to the frame.
addEventListener("focus", () => document.activeElement === page && chat.focus());

await customElements.whenDefined("komand-chat");
await Promise.resolve(); // it starts
if (document.hasFocus() && document.activeElement === page) chat.focus();
if (isFramed) window.parent.postMessage({ komand: "ready" }, "*");
chat.addEventListener("komand-ready", () => { page.dataset.ready = "" });

// The page of notifications: adds this browser, by the Push API, and says why it cannot.
import { registerServiceWorker } from "./service-worker.js";

const form = document.getElementById("add-browser");
const button = form.querySelector("button");
const state = document.getElementById("push-state");

const cannot = reason();
if (cannot) refuse(cannot);
else form.addEventListener("submit", add);
markOwn();

function reason() {
  if (!window.isSecureContext) return "Browsers allow notifications over HTTPS only. Open Komand by its https:// address.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
    return "This browser has no notifications. On an iPhone or iPad, add Komand to the home screen first, and open it there.";
  }
  if (Notification.permission === "denied") return "Notifications of this page are blocked. Allow them in the settings of the browser, then reload.";
  return "";
}

async function add(event) {
  if (form.elements.endpoint.value) return;
  event.preventDefault();
  button.disabled = true;
  state.textContent = "Asking the browser …";
  try {
    if ((await Notification.requestPermission()) !== "granted") return refuse("The browser did not allow notifications. Allow them in its settings, then reload.");
    await registerServiceWorker();
    const worker = await navigator.serviceWorker.ready;
    const options = { userVisibleOnly: true, applicationServerKey: form.dataset.key };
    let made = await worker.pushManager.getSubscription();
    if (made && !hasKey(made, form.dataset.key)) {
      await made.unsubscribe(); // of an installation that was here before
      made = null;
    }
    made ??= await worker.pushManager.subscribe(options);
    const { endpoint, keys } = made.toJSON();
    for (const [name, value] of Object.entries({ endpoint, ...keys, time_zone: zone() })) form.elements[name].value = value;
    form.requestSubmit();
  } catch (error) {
    console.warn("no push subscription", error);
    button.disabled = false;
    state.textContent = `The browser could not reach its push service (${error.name}). Check the network and try again.`;
  }
}

function hasKey(subscription, key) {
  const own = subscription.options?.applicationServerKey;
  if (!own) return true;
  return btoa(String.fromCharCode(...new Uint8Array(own))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") === key;
}

function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
}

function refuse(text) {
  button.disabled = true;
  state.textContent = text;
}

// The row of this browser says so.
async function markOwn() {
  const worker = await navigator.serviceWorker?.getRegistration();
  const made = await worker?.pushManager?.getSubscription();
  if (!made || !crypto.subtle) return;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(made.endpoint));
  const text = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  document.querySelector(`[data-endpoint="${text}"] .standalone-badge`)?.removeAttribute("hidden");
}

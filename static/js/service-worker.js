// Registers the service worker: it shows notifications, and a page while the server cannot be reached.
export function registerServiceWorker() {
  return navigator.serviceWorker.register("/service-worker.js");
}

// A page that has lost the network by then tries again when it is back.
function register() {
  registerServiceWorker().catch(() => addEventListener("online", register, { once: true }));
}

if ("serviceWorker" in navigator) addEventListener("load", register);

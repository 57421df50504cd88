// Registers the service worker: it shows notifications, and a page while the server cannot be reached.
export function registerServiceWorker() {
  return navigator.serviceWorker.register("/service-worker.js");
}

if ("serviceWorker" in navigator) addEventListener("load", () => registerServiceWorker().catch(() => {}));

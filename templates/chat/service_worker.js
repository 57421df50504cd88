// Keeps the page that is shown while offline, and shows notifications. Nothing else is kept: chats stay on the server.
const SHELL = {{ shell|safe }};
const CACHE = `shell ${SHELL.join()}`;

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const drop = async () => {
    const names = await caches.keys();
    await Promise.all(names.filter((name) => name.startsWith("shell ") && name !== CACHE).map((name) => caches.delete(name)));
    await self.clients.claim();
  };
  event.waitUntil(drop());
});

self.addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") {
    event.respondWith(fetch(event.request).catch(() => caches.match(SHELL[0])));
  } else if (SHELL.includes(new URL(event.request.url).pathname)) {
    event.respondWith(fetch(event.request).catch(() => caches.match(event.request, { ignoreSearch: true })));
  }
});

self.addEventListener("push", (event) => {
  const { title, body, url, tag } = event.data?.json() ?? { title: "Komand", body: "Something waits for you.", url: "/chat/waiting" };
  event.waitUntil(show(title, { body, tag, data: { url }, icon: "{{ icon }}", badge: "{{ icon }}", requireInteraction: true }));
});

// A person who looks at the page sees it there.
async function show(title, options) {
  const windows = await self.clients.matchAll({ type: "window" });
  if (windows.some((each) => each.focused)) return;
  await self.registration.showNotification(title, options);
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.url));
});

async function open(url) {
  const windows = await self.clients.matchAll({ type: "window" });
  const there = windows.find((each) => new URL(each.url).pathname === new URL(url, self.location.origin).pathname);
  if (there && "focus" in there) {
    await there.focus();
    await there.navigate(url);
  } else {
    await self.clients.openWindow(url);
  }
}

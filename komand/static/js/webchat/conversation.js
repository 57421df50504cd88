// The visitor's conversation at the server: token, requests, and the stream of events.

const LONGEST_PAUSE = 30_000;
const EVENTS = [
  "message.received", "typing", "message.started", "message.delta", "message.completed", "approval.requested",
  "approval.resolved", "error",
];

export class Refused extends Error {
  constructor(status, body) {
    super(body.message || "The chat is not reachable. Try again.");
    this.status = status;
    this.code = body.error || "";
  }
}

// A version 4 UUID. crypto.randomUUID is missing where the page is not served over TLS.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export class Conversation {
  // user: {userId, userHash, name} of the site, empty texts for a visitor whom it does not know.
  // store: keeps a text for the next page, see store.js.
  // onEvent(name, data); onConnection(isConnected); onReset(): the conversation begins again.
  constructor(account, user, store, { onEvent, onConnection, onReset }) {
    this.base = `/webchat/${account}`;
    this.user = user;
    this.handlers = { onEvent, onConnection, onReset };
    this.store = store;
    this.saved = this.load();
    this.source = null;
    this.lastId = "";
    this.pause = 1000;
  }

  load() {
    try {
      const saved = JSON.parse(this.store.load() || "{}");
      return (saved.userId || "") === this.user.userId ? saved : {};
    } catch {
      return {}; // not what we have saved
    }
  }

  save(changes) {
    this.saved = { ...this.saved, ...changes, userId: this.user.userId };
    this.store.save(JSON.stringify(this.saved));
  }

  // Continue what an earlier page began, if there is anything.
  async resume() {
    if (!this.saved.token && !this.user.userId) return;
    await this.open();
    if (this.saved.hasMessages || this.user.userId) await this.follow();
  }

  // Get a token, or one that is valid for longer.
  async open(conversationId = this.saved.conversationId) {
    const { userId, userHash, name } = this.user;
    const body = { name, ...(conversationId ? { conversationId } : {}), ...(userId ? { userId, userHash } : {}) };
    let opened;
    try {
      opened = await this.post("sessions", body, { isOpening: true });
    } catch (error) {
      if (error.status !== 401 || !this.saved.token || userId) throw error;
      this.save({ token: "", conversationId: "", hasMessages: false }); // it has expired: another conversation begins
      this.handlers.onReset();
      opened = await this.post("sessions", { name }, { isOpening: true });
    }
    this.save({ token: opened.token, conversationId: opened.conversationId });
  }

  async restart() {
    this.close();
    this.lastId = "";
    await this.open(newId());
    this.save({ hasMessages: false });
    this.handlers.onReset();
  }

  async send(id, text, files) {
    if (!this.saved.token) await this.open();
    const attachments = [];
    for (const file of files) {
      const form = new FormData();
      form.append("file", file);
      attachments.push((await this.post("uploads", form)).uploadId);
    }
    const answer = await this.post("messages", { clientMessageId: id, text, attachments });
    if (!answer.notice) {
      this.save({ hasMessages: true });
      if (!this.source) await this.follow();
    } else if (text.trim().startsWith("/new")) {
      this.close();
      this.save({ hasMessages: false });
    }
    return answer;
  }

  press(actionId) {
    return this.post("actions", { actionId });
  }

  async stop() {
    await this.post("messages", { clientMessageId: newId(), text: "/stop", attachments: [] });
  }

  async post(route, body, { isOpening = false, isRetry = false } = {}) {
    const isForm = body instanceof FormData;
    const headers = isForm ? {} : { "Content-Type": "application/json" };
    if (this.saved.token && !(isOpening && this.user.userId)) headers.Authorization = `Bearer ${this.saved.token}`;
    let response;
    try {
      response = await fetch(`${this.base}/${route}`, {
        method: "POST", headers, credentials: "omit", body: isForm ? body : JSON.stringify(body),
      });
    } catch {
      throw new Refused(0, {});
    }
    const answer = await response.json().catch(() => ({}));
    if (response.status === 401 && !isOpening && !isRetry) {
      await this.open();
      return this.post(route, body, { isRetry: true });
    }
    if (!response.ok) throw new Refused(response.status, answer);
    return answer;
  }

  // Follow the events until `close`. A ticket opens one connection, so each begins with a new one.
  async follow() {
    this.close();
    const current = (this.source = { close() {} }); // until the ticket is there
    try {
      const { ticket } = await this.post("tickets", {});
      if (this.source !== current) return;
      const query = new URLSearchParams({ ticket, lastEventId: this.lastId });
      this.listen(new EventSource(`${this.base}/events?${query}`));
    } catch {
      if (this.source === current) this.reconnect();
    }
  }

  listen(source) {
    this.source = source;
    source.addEventListener("open", () => {
      this.pause = 1000;
      this.save({ hasMessages: true });
      this.handlers.onConnection(true);
    });
    source.onerror = (event) => {
      if (event.data !== undefined || this.source !== source) return; // an event of ours with that name
      source.close();
      this.reconnect();
    };
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        if (event.data === undefined) return; // a connection that broke
        this.lastId = event.lastEventId;
        this.handlers.onEvent(name, JSON.parse(event.data));
      });
    }
  }

  reconnect() {
    if (!this.saved.hasMessages) return this.close(); // there is nothing to follow yet
    this.handlers.onConnection(false);
    const waiting = this.source;
    setTimeout(() => this.source === waiting && this.follow(), this.pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}

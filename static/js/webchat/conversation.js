// The visitor's conversation at the server: token, requests, and the stream of events.

// In milliseconds.
const LONGEST_PAUSE = 30_000;
const LONGEST_REQUEST = 30_000;
const LONGEST_UPLOAD = 300_000;
const HIDDEN_TIME = 30_000; // after which a hidden page leaves its connection
const RENEWED_BEFORE = 12 * 3600_000; // the end of a token
const EVENTS = [
  "message.received", "typing", "message.started", "message.delta", "message.completed", "approval.requested",
  "approval.resolved", "error",
];

export class Refused extends Error {
  // status: 0 if the server was not reached.
  constructor(status, body) {
    super(body.message || "The chat is not reachable. Try again.");
    this.status = status;
    this.code = body.error || "";
  }

  // Whether the same request would be refused again.
  get isFinal() {
    return this.status >= 400 && this.status < 500 && this.status !== 429;
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
  // onEvent(name, data); onConnection(isConnected); onRefused(error): the events cannot be followed.
  // onReset(isExpired): the conversation begins again. isExpired: not by a wish of the visitor.
  // readPage(): returns what is sent of the page with the first message, and with the first from another page; null for nothing.
  // origin: of the installation, empty on its own pages.
  constructor(account, user, store, { onEvent, onConnection, onRefused, onReset, readPage }, origin = "") {
    this.base = `${origin}/webchat/${account}`;
    this.user = user;
    this.handlers = { onEvent, onConnection, onRefused, onReset, readPage };
    this.store = store;
    this.saved = this.load();
    this.source = null;
    this.lastId = "";
    this.pause = 1000;
    this.opening = null; // the request for a token that is under way
    this.sending = Promise.resolve(); // the last message that is being sent
    store.watch(() => this.adopt());
    this.left = new AbortController(); // of what follows the page
    const { signal } = this.left;
    addEventListener("online", () => this.followAgain(), { signal });
    document.addEventListener("visibilitychange", () => this.onVisibility(), { signal });
  }

  leaveForGood() {
    this.left.abort();
    this.close();
  }

  load() {
    try {
      const saved = JSON.parse(this.store.load() || "{}");
      const isOver = !this.user.userId && Date.parse(saved.expiresAt) < Date.now();
      return (saved.userId || "") === this.user.userId && !isOver ? saved : {};
    } catch {
      return {}; // not what we have saved
    }
  }

  save(changes) {
    this.saved = { ...this.saved, ...changes, userId: this.user.userId };
    this.store.save(JSON.stringify(this.saved));
  }

  // Take over the conversation that another page of the visitor has begun or continued.
  adopt() {
    const saved = this.load();
    if (!saved.token) return;
    const isOther = saved.conversationId !== this.saved.conversationId;
    this.saved = saved;
    if (isOther) this.reset();
    if (saved.hasMessages && !this.source) this.follow();
  }

  // The messages that the server has not confirmed: {id, text}. Files cannot be kept.
  get unsent() {
    return this.saved.unsent ?? [];
  }

  keepUnsent(id, text) {
    if (!this.unsent.some((message) => message.id === id)) this.save({ unsent: [...this.unsent, { id, text }] });
  }

  dropUnsent(id) {
    if (this.unsent.length) this.save({ unsent: this.unsent.filter((message) => message.id !== id) });
  }

  // Continue what an earlier page began, if there is anything.
  async resume() {
    if (this.user.userId || (this.saved.token && this.saved.hasMessages)) await this.follow();
  }

  // Get a token, or one that is valid for longer. One request at a time: two could begin two conversations.
  open(conversationId = "") {
    if (this.opening && !conversationId) return this.opening;
    const last = this.opening ?? Promise.resolve();
    const opening = last.catch(() => {}).then(() => this.requestToken(conversationId || this.saved.conversationId));
    this.opening = opening;
    const done = () => { if (this.opening === opening) this.opening = null };
    opening.then(done, done);
    return opening;
  }

  async requestToken(conversationId) {
    const { userId, userHash, name } = this.user;
    const body = { name, ...(conversationId ? { conversationId } : {}), ...(userId ? { userId, userHash } : {}) };
    let opened;
    try {
      opened = await this.post("sessions", body, { isOpening: true });
    } catch (error) {
      if (error.status !== 401 || !this.saved.token || userId) throw error;
      this.save({ token: "", conversationId: "", hasMessages: false }); // it has expired: another conversation begins
      this.reset(true);
      opened = await this.post("sessions", { name }, { isOpening: true });
    }
    this.save({ token: opened.token, conversationId: opened.conversationId, expiresAt: opened.expiresAt });
  }

  async restart() {
    const earlier = this.unsent;
    await this.sending;
    await this.open(newId());
    this.leave(earlier);
  }

  // Begin again without what was written before, sent or not.
  leave(earlier) {
    const left = new Set(earlier.map(({ id }) => id));
    this.save({ hasMessages: false, unsent: this.unsent.filter(({ id }) => !left.has(id)) });
    this.reset();
  }

  // Show the conversation from its beginning: events are missing.
  startAgain() {
    this.reset();
    this.follow();
  }

  reset(isExpired = false) {
    this.close();
    this.lastId = "";
    this.handlers.onReset(isExpired);
  }

  // Send a message, behind those that are being sent. Return the answer of the server.
  send(id, text, files) {
    const earlier = this.unsent;
    const answer = this.sending.then(() => this.deliver(id, text, files, earlier));
    this.sending = answer.catch(() => {});
    return answer;
  }

  async deliver(id, text, files, earlier) {
    if (!this.saved.token) await this.open();
    const attachments = [];
    for (const file of files) {
      const form = new FormData();
      form.append("file", file);
      attachments.push((await this.post("uploads", form)).uploadId);
    }
    const page = await this.handlers.readPage();
    const isOther = page && !(this.saved.hasMessages && this.saved.page === page.address);
    const answer = await this.post("messages", { clientMessageId: id, text, attachments, ...(isOther ? { page } : {}) });
    if (!answer.notice) {
      this.save({ hasMessages: true, ...(isOther ? { page: page.address } : {}) });
      if (!this.source) this.follow();
    } else if (text.trim().startsWith("/new")) this.leave(earlier);
    return answer;
  }

  mail(address) {
    return this.post("transcripts", { address });
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
        signal: AbortSignal.timeout(isForm ? LONGEST_UPLOAD : LONGEST_REQUEST),
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
    if (document.hidden) return; // see onVisibility
    const current = (this.source = { close() {} }); // until the ticket is there
    try {
      if (!(Date.parse(this.saved.expiresAt) - Date.now() > RENEWED_BEFORE)) await this.open();
      if (this.source !== current) return;
      const { ticket } = await this.post("tickets", {});
      if (this.source !== current) return;
      const query = new URLSearchParams({ ticket, lastEventId: this.lastId });
      this.listen(new EventSource(`${this.base}/events?${query}`));
    } catch (error) {
      if (this.source === current) this.onFailure(error);
    }
  }

  onFailure(error) {
    if (!error.isFinal) return this.reconnect();
    const hadMessages = this.saved.hasMessages;
    this.close();
    if (error.code !== "no_conversation") return this.handlers.onRefused(error);
    if (!hadMessages) return;
    this.save({ hasMessages: false }); // it was deleted, or ended by /new on another page
    this.reset(true);
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
        if (event.data === undefined || this.source !== source) return; // a connection that broke, or was left
        this.lastId = event.lastEventId;
        this.handlers.onEvent(name, JSON.parse(event.data));
      });
    }
  }

  reconnect() {
    this.handlers.onConnection(false);
    const waiting = (this.source = { close() {}, isWaiting: true });
    setTimeout(() => this.source === waiting && this.follow(), this.pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  followAgain() {
    const isMissing = !this.source && (this.saved.hasMessages || this.user.userId);
    if (isMissing || this.source?.isWaiting) this.follow();
  }

  // Without HTTP/2, browsers allow six connections to a server, of all tabs together. So a hidden tab keeps none.
  onVisibility() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.close(), HIDDEN_TIME);
    else this.followAgain();
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}

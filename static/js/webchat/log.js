// The messages of a conversation on the page. HTML comes from the server, which has sanitised it.

const NEAR_END = 40; // pixels

export class Log {
  // onRunning(isRunning): an answer has begun or ended. onPress(actionId): a button was pressed.
  constructor({ list, empty, announcer, onRunning, onPress }) {
    Object.assign(this, { list, empty, announcer, onRunning, onPress });
    this.clear();
    // Keep the end in view, unless the visitor reads further up.
    list.addEventListener("scroll", () => {
      this.isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
    });
    new ResizeObserver(() => this.scroll()).observe(list);
  }

  clear() {
    this.list.replaceChildren();
    this.items = new Map();
    this.steps = new Map(); // of each open answer: its texts, by step
    this.undrawn = new Set(); // ids of answers whose text has grown since the last frame
    this.isAtEnd = true;
    this.empty.hidden = false;
    this.onRunning(false);
  }

  see(name, data) {
    switch (name) {
      case "message.received": return this.receiveOwn(data);
      case "typing": return this.begin(data.messageId);
      case "message.started": return this.begin(data.messageId);
      case "message.delta": return this.grow(data);
      case "message.completed": return this.end(data, data.state === "cancelled" ? "Stopped." : "");
      case "error": return this.end(data, "Something went wrong. Please try again.");
      case "approval.requested": return this.ask(data);
      case "approval.resolved": return this.resolve(data);
    }
  }

  // The visitor's own messages.

  // Show a message that is being sent. What comes from now on is announced to screen readers, earlier messages are not.
  addOwn(id, text, files) {
    this.isLive = true;
    this.showOwn(id, text, files);
  }

  showOwn(id, text, files = []) {
    const key = `own:${id}`;
    if (this.items.has(key)) return this.drop(this.items.get(key).querySelector(".retry"));
    const item = this.add(key, "own");
    const bubble = element("div", "bubble", text);
    bubble.dir = "auto";
    if (files.length) bubble.append(element("div", "file-names", files.join(", ")));
    item.append(element("span", "sr-only", "You:"), bubble);
    this.scroll(true);
  }

  receiveOwn({ messageId, text, files }) {
    this.showOwn(messageId, text, files);
    this.items.get(`own:${messageId}`).dataset.received = "";
  }

  // Show that a message was not sent. It is shown again if the conversation has begun again meanwhile.
  failOwn(id, text, files, retry) {
    this.showOwn(id, text, files);
    const item = this.items.get(`own:${id}`);
    if ("received" in item.dataset) return; // only the answer to the request was lost
    const button = element("button", "retry", "Not sent. Try again");
    button.type = "button";
    button.addEventListener("click", () => { this.drop(button); retry() });
    item.append(button);
    this.scroll();
  }

  removeOwn(id) {
    this.items.get(`own:${id}`)?.remove();
    this.items.delete(`own:${id}`);
    this.empty.hidden = this.items.size > 0;
  }

  // Answers.

  begin(id) {
    if (this.items.has(`answer:${id}`)) return;
    const item = this.add(`answer:${id}`, "answer");
    const growing = element("div", "growing");
    growing.dir = "auto";
    item.append(element("span", "sr-only", "Answer:"), growing);
    item.dataset.open = "";
    this.steps.set(id, new Map());
    this.onRunning(true);
    this.scroll();
  }

  grow({ messageId, step, seq, text }) {
    this.begin(messageId);
    const steps = this.steps.get(messageId);
    if (!steps) return; // it has ended
    if (!steps.has(step)) this.list.append(this.items.get(`answer:${messageId}`)); // below a question that was answered meanwhile
    const last = steps.get(step) ?? { text: "", length: 0 };
    const kept = seq < last.length ? Array.from(last.text).slice(0, seq).join("") : last.text;
    steps.set(step, { text: kept + text, length: Math.min(seq, last.length) + lengthOf(text) });
    if (!this.undrawn.size) requestAnimationFrame(() => this.draw());
    this.undrawn.add(messageId);
  }

  // Show the texts of growing answers, once a frame: each piece would make the browser lay out the whole text again.
  draw() {
    for (const id of this.undrawn) {
      const steps = [...(this.steps.get(id) ?? [])].sort(([one], [other]) => one - other);
      const growing = this.items.get(`answer:${id}`)?.querySelector(".growing");
      if (growing) growing.textContent = steps.map(([, { text }]) => text).filter(Boolean).join("\n\n");
    }
    this.undrawn.clear();
    this.scroll();
  }

  end({ messageId, html }, instead) {
    this.begin(messageId);
    const item = this.items.get(`answer:${messageId}`);
    delete item.dataset.open;
    this.steps.delete(messageId);
    const body = element("div", "markdown", html ? "" : instead);
    if (html) body.innerHTML = html;
    item.querySelector(".growing, .markdown").replaceWith(body);
    item.hidden = !body.textContent;
    this.announce(body.textContent);
    this.onRunning(this.steps.size > 0);
    this.scroll();
  }

  addNotice(html) {
    const item = this.add(`notice:${this.items.size}`, "notice");
    const body = element("div", "markdown");
    body.innerHTML = html;
    item.append(body);
    this.announce(body.textContent);
    this.scroll(true);
  }

  // Requests for a decision, and questions.

  ask({ actionId, kind, title, choices }) {
    const key = `request:${actionId}`;
    if (this.items.has(key)) return;
    const item = this.add(key, "request");
    const body = element("div", "markdown");
    body.innerHTML = title;
    const buttons = element("div", "choices");
    buttons.setAttribute("role", "group");
    buttons.setAttribute("aria-label", kind === "question" ? "Answers" : "Decision");
    for (const { id, label, style } of choices) {
      const button = element("button", style, label);
      button.type = "button";
      button.dir = "auto";
      button.addEventListener("click", () => this.press(buttons, id));
      buttons.append(button);
    }
    item.append(body, buttons);
    this.announce(body.textContent);
    this.scroll();
  }

  async press(buttons, id) {
    const all = buttons.querySelectorAll("button");
    this.release(buttons);
    for (const button of all) button.disabled = true;
    await this.onPress(id);
    for (const button of all) button.disabled = false; // unless it is resolved, which removes them
  }

  resolve({ actionId, outcome }) {
    const choices = this.items.get(`request:${actionId}`)?.querySelector(".choices");
    if (!choices) return;
    this.release(choices);
    choices.replaceWith(element("div", "outcome", OUTCOMES[outcome] ?? outcome));
  }

  // Remove an element.
  drop(part) {
    if (!part) return;
    this.release(part);
    part.remove();
  }

  // Keep the focus in the chat when an element that may have it goes.
  release(part) {
    if (part.contains(document.activeElement)) this.list.focus({ preventScroll: true });
  }

  announce(text) {
    if (this.isLive) this.announcer.textContent = text;
  }

  add(key, kind) {
    const item = element("li", kind);
    this.items.set(key, item);
    this.list.append(item);
    this.empty.hidden = true;
    return item;
  }

  // isForced: also for a visitor who reads further up.
  scroll(isForced = false) {
    this.isAtEnd ||= isForced;
    if (this.isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

const OUTCOMES = {
  approved: "Allowed", denied: "Denied", expired: "Nobody decided in time", cancelled: "Withdrawn", answered: "Answered",
  ended: "No longer open",
};

// Code points, by which the server counts.
function lengthOf(text) {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

function element(tag, name, text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

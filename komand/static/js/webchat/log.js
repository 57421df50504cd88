// The messages of a conversation on the page. HTML comes from the server, which has sanitised it.

export class Log {
  // onRunning(isRunning): an answer has begun or ended. onPress(actionId): a button was pressed.
  constructor({ list, empty, announcer, onRunning, onPress }) {
    Object.assign(this, { list, empty, announcer, onRunning, onPress });
    this.clear();
    list.addEventListener("click", (event) => {
      const copy = event.target.closest(".copy-code");
      if (copy) navigator.clipboard?.writeText(copy.closest(".code").querySelector("code").textContent);
    });
  }

  clear() {
    this.list.replaceChildren();
    this.items = new Map();
    this.steps = new Map(); // of each open answer: the code points of its texts, by step
    this.empty.hidden = false;
    this.onRunning(false);
  }

  see(name, data) {
    switch (name) {
      case "message.received": return this.showOwn(data.messageId, data.text, data.files);
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
    if (this.items.has(key)) return this.items.get(key).querySelector(".retry")?.remove();
    const item = this.add(key, "own");
    const bubble = element("div", "bubble", text);
    if (files.length) bubble.append(element("div", "file-names", files.join(", ")));
    item.append(element("span", "sr-only", "You:"), bubble);
    this.scroll(true);
  }

  failOwn(id, retry) {
    const item = this.items.get(`own:${id}`);
    if (!item || item.querySelector(".retry")) return;
    const button = element("button", "retry", "Not sent. Try again");
    button.type = "button";
    button.addEventListener("click", () => { button.remove(); retry() });
    item.append(button);
  }

  // Answers.

  begin(id) {
    if (this.items.has(`answer:${id}`)) return;
    const item = this.add(`answer:${id}`, "answer");
    item.append(element("span", "sr-only", "Answer:"), element("div", "growing"));
    item.dataset.open = "";
    this.steps.set(id, new Map());
    this.onRunning(true);
    this.scroll();
  }

  grow({ messageId, step, seq, text }) {
    this.begin(messageId);
    const steps = this.steps.get(messageId);
    if (!steps) return; // it has ended
    const item = this.items.get(`answer:${messageId}`);
    if (!steps.has(step)) this.list.append(item); // below a question that was answered meanwhile
    const points = steps.get(step) ?? [];
    points.length = Math.min(points.length, seq);
    points.push(...text);
    steps.set(step, points);
    const shown = [...steps.keys()].sort((a, b) => a - b).map((number) => steps.get(number).join(""));
    item.querySelector(".growing").textContent = shown.filter(Boolean).join("\n\n");
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
      button.addEventListener("click", () => this.press(buttons, id));
      buttons.append(button);
    }
    item.append(body, buttons);
    this.announce(body.textContent);
    this.scroll();
  }

  async press(buttons, id) {
    const all = buttons.querySelectorAll("button");
    for (const button of all) button.disabled = true;
    await this.onPress(id);
    for (const button of all) button.disabled = false; // unless it is resolved, which removes them
  }

  resolve({ actionId, outcome }) {
    const choices = this.items.get(`request:${actionId}`)?.querySelector(".choices");
    choices?.replaceWith(element("div", "outcome", OUTCOMES[outcome] ?? outcome));
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

  // Keep the end in view, unless the visitor reads further up.
  scroll(isForced = false) {
    const { list } = this;
    const isNearEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 160;
    if (isForced || isNearEnd) list.scrollTop = list.scrollHeight;
  }
}

const OUTCOMES = {
  approved: "Allowed", denied: "Denied", expired: "Nobody decided in time", cancelled: "Withdrawn", answered: "Answered",
  ended: "No longer open",
};

function element(tag, name, text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

// The messages of a conversation on the page. HTML comes from the server, which has sanitised it.

import { GAP, StepText } from "../chat/step-text.js";
import { filled } from "../component/texts.js";
import { StepView } from "../chat/step-view.js";

export class Log {
  // onRunning(isRunning): an answer has begun or ended. onPress(actionId): a button was pressed.
  // onGap(): text is missing. texts: those that are shown. scrolled: the element that scrolls.
  // keepEnd(isForced): keep the end in view, if forced also for a visitor who reads further up.
  constructor({ list, empty, announcer, onRunning, onPress, onGap, texts, scrolled, keepEnd }) {
    Object.assign(this, { list, empty, announcer, onRunning, onPress, onGap, texts, scrolled, keepEnd });
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.items = new Map();
    this.runs = new Map(); // of each open answer: its parts, by step: {item, text, view}
    this.undrawn = new Set(); // parts whose text has grown since the last frame
    this.empty.hidden = false;
    this.onRunning(false);
  }

  see(name, data) {
    switch (name) {
      case "message.received": return this.receiveOwn(data);
      case "typing": return this.begin(data.messageId);
      case "message.started": return this.begin(data.messageId);
      case "message.delta": return this.grow(data);
      case "message.completed": return this.end(data, data.state === "cancelled" ? this.texts.stopped : "");
      case "error": return this.end(data, this.texts.failed);
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
    item.append(element("span", "sr-only", this.texts.you), bubble);
    this.keepEnd(true);
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
    const button = element("button", "retry", this.texts.retry);
    button.type = "button";
    button.addEventListener("click", () => { this.drop(button); retry() });
    item.append(button);
    this.keepEnd();
  }

  removeOwn(id) {
    this.items.get(`own:${id}`)?.remove();
    this.items.delete(`own:${id}`);
    this.empty.hidden = this.items.size > 0;
  }

  // Answers. Each step that writes has a part of its own, so that a question stays between them.

  begin(id) {
    if (this.runs.has(id) || this.items.has(`over:${id}`)) return;
    this.runs.set(id, new Map());
    this.wait(id);
    this.onRunning(true);
    this.keepEnd();
  }

  // Show that something is going to be written, at the end.
  wait(id) {
    const item = this.add(`waiting:${id}`, "answer");
    item.dataset.open = "";
    item.append(element("span", "sr-only", this.texts.answer), element("div", "growing"));
  }

  stopWaiting(id) {
    this.drop(this.items.get(`waiting:${id}`));
    this.items.delete(`waiting:${id}`);
  }

  part(id, step) {
    const parts = this.runs.get(id);
    if (parts.has(step)) return parts.get(step);
    this.stopWaiting(id);
    for (const { item } of parts.values()) delete item.dataset.open;
    const item = element("li", "answer");
    const [blocks, plain] = [element("div", "markdown"), element("div", "open-text")];
    plain.dir = "auto";
    item.append(element("span", "sr-only", this.texts.answer), blocks, plain);
    this.place(item, id, step, 0);
    const part = { item, text: new StepText(), view: new StepView(item) };
    item.dataset.open = "";
    parts.set(step, part);
    return part;
  }

  // Insert an item of a run before those of its later steps. order: 0 for text, 1 for a request.
  place(item, id, step, order) {
    Object.assign(item.dataset, { run: id, step, order });
    const isLater = ({ dataset }) => dataset.run === id && (dataset.step - step || dataset.order - order) > 0;
    this.list.insertBefore(item, [...this.list.children].find(isLater) ?? null);
    this.empty.hidden = true;
  }

  grow({ messageId, step, seq, text, blocks = [], draft, isNew }) {
    this.begin(messageId);
    if (!this.runs.has(messageId)) return; // it has ended
    if (isNew) {
      this.runs.get(messageId).get(step)?.item.remove();
      this.runs.get(messageId).delete(step);
    }
    if (!text && isNew) return this.items.has(`waiting:${messageId}`) || this.wait(messageId);
    const part = this.part(messageId, step);
    const fresh = part.text.take({ offset: seq, text, blocks, draft });
    if (fresh === GAP) return this.onGap();
    part.view.add(fresh);
    if (!this.undrawn.size) requestAnimationFrame(() => this.draw());
    this.undrawn.add(part);
  }

  // Show the texts of growing answers, once a frame: each piece would make the browser lay out the whole text again.
  draw() {
    for (const { text, view } of this.undrawn) view.paint(text);
    this.undrawn.clear();
    this.keepEnd();
  }

  end({ messageId, html, steps }, instead) {
    this.begin(messageId);
    const parts = this.runs.get(messageId);
    if (!parts) return; // it is shown
    this.stopWaiting(messageId);
    for (const { item } of parts.values()) item.remove();
    const shown = steps?.length ? steps : [{ step: Math.max(0, ...parts.keys()), html }];
    const items = shown.map(({ step, html }) => {
      const item = element("li", "answer");
      const body = element("div", "markdown", html ? "" : instead);
      if (html) body.innerHTML = html;
      item.append(element("span", "sr-only", this.texts.answer), body);
      if (body.textContent) this.place(item, messageId, step, 0);
      return body;
    });
    this.items.set(`over:${messageId}`, null);
    this.runs.delete(messageId);
    this.announce(items.map((body) => body.textContent).join(" "));
    this.onRunning(this.runs.size > 0);
    this.keepEnd();
  }

  addNotice(html) {
    const item = this.add(`notice:${this.items.size}`, "notice");
    const body = element("div", "markdown");
    body.innerHTML = html;
    item.append(body);
    this.announce(body.textContent);
    this.keepEnd(true);
  }

  // Requests for a decision, and questions.

  ask({ actionId, kind, title, choices, messageId, step }) {
    const key = `request:${actionId}`;
    if (this.items.has(key)) return;
    const item = element("li", "request");
    this.items.set(key, item);
    this.place(item, messageId, step ?? 0, 1);
    this.stopWaiting(messageId);
    for (const { item: part } of this.runs.get(messageId)?.values() ?? []) delete part.dataset.open;
    const body = element("div", "markdown");
    if (kind === "approval" && !choices.length) body.textContent = this.texts.willAnswer;
    else body.innerHTML = title;
    const buttons = element("div", "choices");
    buttons.setAttribute("role", "group");
    buttons.setAttribute("aria-label", kind === "question" ? this.texts.answers : this.texts.decision);
    for (const { id, label, style } of choices) {
      const button = element("button", style, label);
      button.type = "button";
      button.dir = "auto";
      button.addEventListener("click", () => this.press(buttons, id));
      buttons.append(button);
    }
    item.append(body, buttons);
    this.announce(body.textContent);
    this.keepEnd();
  }

  async press(buttons, id) {
    const all = buttons.querySelectorAll("button");
    this.release(buttons);
    for (const button of all) button.disabled = true;
    await this.onPress(id);
    for (const button of all) button.disabled = false; // unless it is resolved, which removes them
  }

  resolve({ actionId, outcome, answer }) {
    const item = this.items.get(`request:${actionId}`);
    const choices = item?.querySelector(".choices");
    if (!choices) return;
    this.release(choices);
    if (choices.children.length || outcome === "answered") {
      const isChoice = [...choices.children].some(({ textContent }) => textContent === answer);
      const text = isChoice ? filled(this.texts.chose, { answer }) : this.texts[outcome === "ended" ? "closed" : outcome];
      choices.replaceWith(element("div", "outcome", text ?? outcome));
    } else item.remove(); // it was not the visitor's to decide
    const { run } = item.dataset;
    if (this.runs.has(run) && !this.items.has(`waiting:${run}`)) this.wait(run);
    this.keepEnd();
  }

  // Remove an element.
  drop(part) {
    if (!part) return;
    this.release(part);
    part.remove();
  }

  // Keep the focus in the chat when an element that may have it goes.
  release(part) {
    if (part.contains(this.list.getRootNode().activeElement)) this.scrolled.focus({ preventScroll: true });
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
}

function element(tag, name, text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

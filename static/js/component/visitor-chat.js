// The conversation of a visitor of a site, over the web chat's routes.
import { Conversation, newId } from "../webchat/conversation.js";
import { Log } from "../webchat/log.js";
import { hostPage } from "./host-page.js";
import { siteStorage } from "./storage.js";
import { filled } from "./texts.js";

export class VisitorChat {
  longest = 8000; // characters of a message
  kind = "visitor";
  underWay = new Set(); // ids of messages

  constructor(element, base) {
    this.element = element;
    this.base = base;
  }

  get thread() {
    return this.conversation?.saved.conversationId ?? "";
  }

  async start(shell) {
    this.shell = shell;
    const account = this.element.getAttribute("account");
    const list = document.createElement("ol");
    Object.assign(list, { id: "log", className: "kc-list" });
    list.setAttribute("aria-label", shell.texts.messages);
    shell.log.replaceWith(list);
    shell.log = list;
    this.log = new Log({
      list, texts: shell.texts, scrolled: shell.byId("scroll"), announcer: shell.byId("announcer"), empty: shell.byId("welcome"),
      keepEnd: (isForced) => shell.keepEnd(isForced),
      onGap: () => this.conversation.startAgain(),
      onRunning: (isRunning) => shell.setRunning(isRunning),
      onPress: (action) => shell.attempt(async () => this.showNotice(await this.conversation.press(action))),
    });
    const { userId = "", userHash = "", name = "" } = this.element.user ?? {};
    this.conversation = new Conversation(account, { userId, userHash, name }, this.element.store ?? siteStorage(`komand.chat ${this.base} ${account}`), {
      onEvent: (event, data) => this.see(event, data),
      onRefused: (error) => this.showError(error),
      onConnection: (isConnected) => shell.setConnected(isConnected),
      readPage: () => hostPage(this.element),
      onReset: (isExpired) => {
        shell.setConnected(true);
        this.log.clear();
        shell.setMessages(false);
        if (isExpired) this.showText(shell.texts.ended);
        this.element.tell("reset", {});
      },
    }, this.base);
    this.onOnline = () => this.sendUnsent();
    addEventListener("online", this.onOnline);
    await shell.attempt(() => this.conversation.resume());
    this.sendUnsent();
    return true;
  }

  stopAll() {
    this.conversation.leaveForGood();
    removeEventListener("online", this.onOnline);
  }

  see(event, data) {
    this.isReached = true;
    this.log.see(event, data);
    this.shell.setMessages(this.log.items.size > 0);
    if (event === "message.started") this.element.tell("run-start", { runId: data.messageId });
    if (event === "message.completed") this.element.tell("run-end", { runId: data.messageId, outcome: data.state === "cancelled" ? "cancelled" : "success" });
    if (event === "error") this.element.tell("run-end", { runId: data.messageId, outcome: "error" });
    if (event === "approval.requested") this.element.tell("interrupt", { interrupts: [{ id: data.actionId, reason: data.kind }] });
  }

  // Show a text of ours as a notice.
  showText(text) {
    const line = document.createElement("p");
    line.textContent = text;
    this.showNotice({ notice: { html: line.outerHTML } });
  }

  showNotice({ notice }) {
    if (notice) this.log.addNotice(notice.html);
    this.shell.setMessages(this.log.items.size > 0);
  }

  showError(error) {
    this.shell.note(error.message);
    if (!error.status || error.code === "origin_refused") this.explain();
    this.element.tell("error", { code: error.code ?? "", message: error.message, status: error.status ?? 0 });
  }

  // Tell the developer of the site why no request succeeds, if it is the page's origin. Browsers do not say it.
  async explain() {
    if (this.isReached) return;
    try {
      await fetch(`${this.base}/health/live`, { mode: "no-cors", credentials: "omit", cache: "no-store" });
      console.error(`Komand: add ${location.origin} to the origins of ${this.base}/webchat/${this.element.getAttribute("account")}`);
    } catch {
      // The installation cannot be reached.
    }
  }

  mayMessage() {
    return true;
  }

  send(text, files = []) {
    return this.deliver(newId(), text, files);
  }

  async deliver(id, text, files) {
    this.underWay.add(id);
    const isCommand = text.startsWith("/");
    const names = files.map(({ name }) => name);
    if (!isCommand) this.log.addOwn(id, text, names);
    if (!isCommand && !files.length) this.conversation.keepUnsent(id, text); // the page may be left before the answer
    this.shell.setMessages(this.log.items.size > 0);
    try {
      this.showNotice(await this.conversation.send(id, text, files));
      this.isReached = true;
      this.conversation.dropUnsent(id);
      this.shell.note("");
      return true;
    } catch (error) {
      if (error.isFinal) this.conversation.dropUnsent(id);
      if ((isCommand || error.isFinal) && this.shell.takeBack(text, files)) this.log.removeOwn(id);
      else if (!isCommand) this.log.failOwn(id, text, names, () => this.deliver(id, text, files));
      this.showError(error.status === 413 ? { ...error, message: `A file is too large. ${this.shell.attachments.advice}` } : error);
      return false;
    } finally {
      this.underWay.delete(id);
    }
  }

  // Send again what was not sent, now or by an earlier page. The ids make sure that each is stored once.
  async sendUnsent() {
    for (const { id, text } of this.conversation.unsent) {
      if (!this.underWay.has(id) && !(await this.deliver(id, text, []))) break;
    }
  }

  async mail(address) {
    await this.conversation.mail(address);
    this.showText(filled(this.shell.texts.mailSent, { address }));
  }

  stop() {
    return this.conversation.stop();
  }

  reset() {
    return this.conversation.restart();
  }
}

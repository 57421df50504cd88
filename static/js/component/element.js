// <komand-chat>: the conversation with an agent in a page of another site. docs/embedding.md describes it.
import { AgentChat } from "./agent-chat.js";
import { Shell } from "./shell.js";
import { TEXTS } from "./texts.js";
import { VisitorChat } from "./visitor-chat.js";

const SOURCE = document.currentScript?.src ?? "";
const OF_SHELL = [
  "heading", "placeholder", "start-text", "initial-message", "closable", "resettable", "interactive", "header", "theme", "file-types",
  "max-files", "max-file-bytes", "launcher", "agent-name", "picture", "transcript",
];
const OF_CHAT = ["agent", "account", "thread", "modal"];
const PROPERTIES = ["getToken", "messageContext", "texts", "starters", "user", "store", "page"];

class KomandChat extends HTMLElement {
  static observedAttributes = [...OF_SHELL, ...OF_CHAT];
  #shell = null;
  #chat = null;
  #values = {};
  #planned = false;

  constructor() {
    super();
    this.attachShadow({ mode: "open" });
    // What the page has set before this script was loaded.
    for (const name of PROPERTIES) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
  }

  // Properties.

  // getToken({ isExpired }): returns a token of the user, perhaps later; isExpired: the last one was refused.
  get getToken() { return this.#values.getToken }
  set getToken(value) { this.#set("getToken", value); this.#plan() }

  // messageContext: what each message says of the page: a text, an object of texts, or a function that returns one.
  get messageContext() { return this.#values.messageContext }
  set messageContext(value) { this.#set("messageContext", value) }

  // texts: own texts in place of some of TEXTS.
  get texts() { return { ...TEXTS, ...this.#values.texts } }
  set texts(value) { this.#set("texts", value); this.#shell?.update() }

  // starters: messages that a new conversation offers, one a line of the attribute.
  get starters() {
    const given = this.#values.starters ?? (this.getAttribute("starters") ?? "").split("\n");
    return given.map((text) => String(text).trim()).filter(Boolean).slice(0, 8);
  }
  set starters(value) { this.#set("starters", value); this.#shell?.updateStart() }

  // user: whom the site knows, for a visitor's chat: {userId, userHash, name}.
  get user() { return this.#values.user }
  set user(value) { this.#set("user", value) }

  // store: keeps a visitor's conversation, for the page that sites frame: {load(), save(text), watch(onSaved)}.
  get store() { return this.#values.store }
  set store(value) { this.#set("store", value) }

  // page: what a visitor's chat reports of the page in place of its own, for the page that sites frame: {address, title, data}.
  get page() { return this.#values.page }
  set page(value) { this.#set("page", value) }

  get thread() { return this.#chat?.thread ?? "" }

  #set(name, value) {
    this.#values[name] = value;
  }

  // Methods.

  open() {
    if (this.#shell?.open()) this.tell("open", {});
  }

  close() {
    const wasOpen = this.#shell?.close();
    if (wasOpen || !this.#shell?.frame) this.tell("close", {});
  }

  // Send a message. Return whether it was taken.
  async send(text, files = []) {
    if (!this.#chat || !this.#shell) throw new Error("komand-chat: not started; wait for the event komand-ready");
    if (!this.#chat.mayMessage(text)) return false;
    if (!this.tell("message", { text, files }, true)) return false;
    await this.#chat.send(text, files);
    return true;
  }

  // Add files to the next message, as a user does who chooses them.
  attach(files) {
    this.#shell?.addFiles(files);
  }

  stop() {
    return this.#shell?.attempt(() => this.#chat.stop());
  }

  reset() {
    return this.#shell?.attempt(() => this.#chat.reset());
  }

  focus() {
    this.#shell?.box.focus();
  }

  // Tell the site something. Return false if it has prevented it.
  tell(name, detail, cancelable = false) {
    return this.dispatchEvent(new CustomEvent(`komand-${name}`, { detail, cancelable, bubbles: true }));
  }

  // Life.

  connectedCallback() {
    this.#plan();
  }

  disconnectedCallback() {
    queueMicrotask(() => this.isConnected || this.#end());
  }

  attributeChangedCallback(name, before, after) {
    if (before === after || !this.#shell) return;
    if (OF_SHELL.includes(name)) this.#shell.update();
    else {
      this.#end();
      this.#plan();
    }
  }

  #plan() {
    if (this.#planned || this.#shell || !this.isConnected) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      if (this.isConnected && !this.#shell) this.#start();
    });
  }

  #start() {
    const base = SOURCE.replace(/\/webchat\/komand-chat\.js.*$/, "");
    const isOfVisitor = this.hasAttribute("account");
    if (!isOfVisitor && !this.hasAttribute("agent")) return console.error("Komand: <komand-chat> needs the attribute agent or account");
    if (!isOfVisitor && typeof this.getToken !== "function") return; // it starts when the page sets it
    const chat = (this.#chat = isOfVisitor ? new VisitorChat(this, base) : new AgentChat(this, base));
    const send = (text, files) => (this.tell("message", { text, files }, true) ? chat.send(text, files) : undefined);
    this.#shell = new Shell(this, this.shadowRoot, chat.kind, {
      send, longest: chat.longest,
      mayMessage: (text) => chat.mayMessage(text), stop: () => chat.stop(), reset: () => chat.reset(),
      mail: chat.mail && ((address) => chat.mail(address)),
    });
    chat.start(this.#shell).then((isShown) => isShown && this.#chat === chat && this.tell("ready", { threadId: chat.thread }));
  }

  #end() {
    this.#chat?.stopAll();
    this.shadowRoot.replaceChildren();
    this.#chat = this.#shell = null;
  }
}

if (!customElements.get("komand-chat")) customElements.define("komand-chat", KomandChat);

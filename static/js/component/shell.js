// What is around the conversation: heading, box, files, problems, and the dialog of a chat that is opened by a button.
import { setUpCopying } from "../chat/copying.js";
import { isAtEnd } from "../chat/scroll.js";
import { Attachments } from "../webchat/attachments.js";
import { drawPicture } from "./picture.js";
import { filled } from "./texts.js";
import { setUpTranscript } from "./transcript.js";

const MOST_BYTES = 10_000_000;
const BODY = `
  <div class="kc" part="chat">
    <header class="kc-head">
      <canvas class="kc-picture" id="picture" width="72" height="72" part="picture" aria-hidden="true" hidden></canvas>
      <div class="kc-names"><h2 id="title" dir="auto" part="title"></h2><p id="agent-name" dir="auto" part="agent-name" hidden></p></div>
      <button type="button" class="plain" id="mail" part="mail" hidden><svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d="M3 5h14v10H3zM3 6l7 5 7-5"/></svg></button>
      <button type="button" class="kc-plain" id="reset" part="reset"></button>
      <button type="button" class="kc-plain" id="close" part="close"></button>
    </header>
    <div class="scroll" id="scroll" tabindex="0" role="group" part="messages">
      <div class="column">
        <div class="welcome" id="welcome"><p class="kc-greeting" dir="auto" part="greeting"></p><ul class="starters"></ul></div>
        <div id="log" aria-live="off"></div>
        <div id="sending"></div>
      </div>
    </div>
    <form id="composer" class="composer" part="composer">
      <div id="note" class="note" role="alert"></div>
      <p class="kc-chosen" id="chosen" hidden><span id="names" role="status" dir="auto"></span> <button type="button" id="remove"></button></p>
      <div class="composer-box">
        <button type="button" class="plain" id="attach"><svg class="icon" aria-hidden="true"><use href="#i-clip"/></svg></button>
        <input type="file" id="files" multiple hidden>
        <label class="sr-only" for="message"></label>
        <textarea id="message" rows="1" dir="auto" autocomplete="off" enterkeyhint="send"></textarea>
        <button type="button" id="stop" class="round stop" hidden><svg class="icon" aria-hidden="true"><use href="#i-stop"/></svg></button>
        <button type="submit" id="send" class="round"><svg class="icon" aria-hidden="true"><use href="#i-send"/></svg><span class="kc-start" hidden></span></button>
      </div>
    </form>
    <dialog class="kc-ask" id="ask" aria-labelledby="ask-text"><form method="dialog"><p id="ask-text"></p><p class="kc-answers"><button value="yes" class="kc-yes"></button><button value="no" class="kc-no"></button></p></form></dialog>
    <dialog class="kc-ask" id="mail-ask" aria-labelledby="mail-text"><form><label id="mail-text" for="mail-address"></label><input type="email" id="mail-address" required maxlength="254" autocomplete="email"><p class="note" role="alert"></p><p class="kc-answers"><button class="kc-yes"></button><button type="button" class="kc-no"></button></p></form></dialog>
    <p id="announcer" class="sr-only" role="status"></p>
    <div hidden id="patterns"></div>
  </div>`;

export class Shell {
  #top = 0; // the last known position of the messages

  // element: the component. kind: of its styles and patterns, "agent" or "visitor".
  // handlers: send(text, files), stop(), reset(), all asynchronous; mail(address), if the conversation can be sent.
  constructor(element, root, kind, handlers) {
    Object.assign(this, { element, root, kind, handlers });
    this.sticks = true;
    this.hasMessages = false;
    this.mode = element.hasAttribute("launcher") ? "launcher" : element.hasAttribute("modal") ? "modal" : "page";
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(ASSETS.styles[kind]);
    root.adoptedStyleSheets = [sheet];
    root.innerHTML = this.mode === "page" ? BODY : `<dialog class="kc-frame">${BODY}</dialog>`;
    this.kc = root.querySelector(".kc");
    this.byId("patterns").innerHTML = ASSETS.icons + ASSETS.patterns;
    this.kc.prepend(root.querySelector(".sprite"));
    this.log = this.byId("log");
    this.box = this.byId("message");
    this.frame = root.querySelector(".kc-frame");
    this.listen();
    if (this.frame) this.setUpFrame();
    this.update();
  }

  byId(id) {
    return this.root.getElementById(id);
  }

  // Attributes and texts.

  attribute(name, text) {
    return this.element.getAttribute(name) ?? text;
  }

  get texts() {
    return this.element.texts;
  }

  // Show what the attributes and texts say now.
  update() {
    const { texts } = this;
    const put = (id, text) => { this.byId(id).textContent = text };
    put("title", this.attribute("heading", texts.title));
    put("agent-name", this.attribute("agent-name", ""));
    this.byId("agent-name").hidden = !this.byId("agent-name").textContent;
    const address = this.attribute("picture", "");
    if (address !== (this.byId("picture").dataset.address ?? "")) drawPicture(this.byId("picture"), address);
    put("reset", texts.newChat);
    put("close", texts.close);
    put("remove", texts.remove);
    put("ask-text", texts.askNewChat);
    put("mail-text", texts.askMail);
    for (const [id, yes, no] of [["ask", texts.yes, texts.no], ["mail-ask", texts.sendMail, texts.cancel]]) {
      this.byId(id).querySelector(".kc-yes").textContent = yes;
      this.byId(id).querySelector(".kc-no").textContent = no;
    }
    this.byId("mail").title = texts.mail;
    this.root.querySelector(".composer-box label").textContent = texts.placeholder;
    this.box.placeholder = this.attribute("placeholder", texts.placeholder);
    this.root.querySelector(".kc-greeting").textContent = this.attribute("initial-message", texts.greeting);
    for (const [id, text] of [["attach", texts.attach], ["mail", texts.mail], ["stop", texts.stop], ["send", texts.send], ["scroll", texts.messages], ["composer", texts.composer], ["log", texts.conversation]]) {
      this.byId(id).setAttribute("aria-label", text);
    }
    this.byId("close").hidden = !this.frame && !this.element.hasAttribute("closable");
    this.byId("reset").hidden = this.element.getAttribute("resettable") === "false";
    this.byId("composer").hidden = this.element.getAttribute("interactive") === "false";
    this.root.querySelector(".kc-head").hidden = this.element.getAttribute("header") === "false";
    this.updateFiles();
    this.updateStart();
    this.showTheme();
    if (this.launcher) this.launcher.textContent = this.element.getAttribute("launcher") || texts.launch;
    if (this.frame) this.frame.setAttribute("aria-label", this.byId("title").textContent);
  }

  updateFiles() {
    const { attachments } = this;
    attachments.input.accept = this.attribute("file-types", "");
    attachments.most = Number(this.attribute("max-files", 10));
    attachments.largest = Math.min(Number(this.attribute("max-file-bytes", MOST_BYTES)), this.largest ?? Infinity);
    attachments.input.multiple = attachments.most > 1;
    this.byId("attach").hidden = !(attachments.most > 0);
  }

  // light, dark, host, or else as the reader's system has it.
  showTheme() {
    let theme = this.element.getAttribute("theme");
    if (theme === "host") {
      const scheme = getComputedStyle(this.element).colorScheme;
      const isBoth = scheme.includes("dark") && scheme.includes("light");
      theme = isBoth ? "" : scheme.includes("dark") ? "dark" : "light";
    }
    for (const part of [this.kc, this.launcher, this.frame]) {
      if (["light", "dark"].includes(theme)) part?.setAttribute("data-theme", theme);
      else part?.removeAttribute("data-theme");
    }
  }

  // Whether the conversation has messages: without, the greeting and the starters are shown.
  setMessages(hasMessages) {
    if (this.hasMessages === hasMessages) return;
    this.hasMessages = hasMessages;
    this.updateStart();
  }

  updateStart() {
    this.byId("welcome").hidden = this.hasMessages;
    this.byId("mail").hidden = !this.hasMessages || !this.handlers.mail || !this.element.hasAttribute("transcript");
    const start = this.hasMessages ? null : this.element.getAttribute("start-text");
    const label = this.root.querySelector(".kc-start");
    label.hidden = !start;
    label.textContent = start ?? "";
    this.byId("send").classList.toggle("kc-wide", Boolean(start));
    this.byId("send").setAttribute("aria-label", start || this.texts.send);
    const buttons = this.element.starters.map((text) => {
      const [item, button] = [document.createElement("li"), document.createElement("button")];
      Object.assign(button, { type: "button", className: "starter", textContent: text, dir: "auto" });
      button.addEventListener("click", () => this.element.send(text));
      item.append(button);
      return item;
    });
    this.root.querySelector(".starters").replaceChildren(...buttons);
  }

  // The box.

  listen() {
    this.attachments = new Attachments({
      input: this.byId("files"), chosen: this.byId("chosen"), names: this.byId("names"), remove: this.byId("remove"),
      onProblem: (text) => this.note(text), onChange: (files) => this.element.tell("files", { files }),
    });
    this.byId("attach").addEventListener("click", () => this.byId("files").click());
    this.byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.byId("composer").requestSubmit();
    });
    this.box.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) this.attach(event, event.clipboardData.files);
    });
    this.kc.addEventListener("dragover", (event) => event.preventDefault());
    this.kc.addEventListener("drop", (event) => this.attach(event, event.dataTransfer.files));
    this.byId("stop").addEventListener("click", () => this.attempt(this.handlers.stop));
    this.byId("mail").addEventListener("click", setUpTranscript(this.byId("mail-ask"), (address) => this.handlers.mail(address)));
    this.byId("reset").addEventListener("click", () => this.askForReset());
    this.byId("close").addEventListener("click", () => this.element.close());
    this.byId("scroll").addEventListener("scroll", () => this.#look(), { passive: true });
    const sizes = new ResizeObserver(() => this.keepEnd());
    for (const part of [this.root.querySelector(".column"), this.byId("scroll")]) sizes.observe(part);
    setUpCopying((text) => this.announce(text), this.root);
  }

  attach(event, files) {
    event.preventDefault();
    this.addFiles(files);
  }

  // Add files to the next message, if it can have some.
  addFiles(files) {
    if (!this.byId("attach").hidden && !this.byId("composer").hidden) this.attachments.add([...files]);
  }

  submit() {
    const text = this.box.value.trim();
    const { attachments } = this;
    if (!text && !attachments.files.length) return this.box.focus();
    const length = Array.from(text).length;
    const most = this.handlers.longest;
    if (length > most) return this.note(filled(this.texts.tooLong, { most: most.toLocaleString("en"), length: length.toLocaleString("en") }));
    if (!this.handlers.mayMessage(text)) return this.box.focus();
    this.box.value = "";
    this.note("");
    this.handlers.send(text, attachments.take());
    this.box.focus();
  }

  // Put back what was not sent, if nothing else was written since.
  takeBack(text, files) {
    if (this.box.value || this.attachments.files.length) return false;
    this.box.value = text;
    this.attachments.set(files);
    return true;
  }

  askForReset() {
    if (!this.hasMessages) return this.attempt(this.handlers.reset);
    const dialog = this.byId("ask");
    dialog.returnValue = "no";
    dialog.addEventListener("close", async () => {
      if (dialog.returnValue === "yes") await this.attempt(this.handlers.reset);
      this.box.focus();
    }, { once: true });
    dialog.showModal();
    dialog.querySelector(".kc-no").focus();
  }

  // Carry out what a person asked for. Return whether it succeeded; else say why.
  async attempt(action) {
    try {
      await action();
      this.note("");
      return true;
    } catch (error) {
      this.note(error.message);
      return false;
    }
  }

  // Why the last action failed, or else the state of the connection.
  note(text) {
    const note = this.byId("note");
    if (note.textContent !== text) note.textContent = text; // each change is announced
  }

  setConnected(isConnected) {
    const { lost } = this.texts;
    if (!isConnected) this.note(lost);
    else if (this.byId("note").textContent === lost) this.note("");
  }

  setRunning(isRunning) {
    const stop = this.byId("stop");
    if (!isRunning && this.root.activeElement === stop) this.byId("scroll").focus(); // else it would be lost
    stop.hidden = !isRunning;
    this.kc.toggleAttribute("data-busy", isRunning);
  }

  announce(text) {
    this.byId("announcer").textContent = text;
  }

  // Detect whether the reader has scrolled. While nothing is shown, nobody has.
  #look() {
    const view = this.byId("scroll");
    if (!view.clientHeight) return;
    this.sticks = isAtEnd(view, this.#top, this.sticks);
    this.#top = view.scrollTop;
  }

  // Keep the end in view while the reader is there.
  keepEnd(isForced = false) {
    this.#look();
    this.sticks ||= isForced;
    const view = this.byId("scroll");
    if (this.sticks) view.scrollTop = view.scrollHeight;
    this.#top = view.scrollTop;
  }

  // Scroll by some pixels, away from the end.
  shift(pixels) {
    if (!pixels) return;
    this.byId("scroll").scrollTop += pixels;
    this.#top = this.byId("scroll").scrollTop;
    this.sticks = false;
  }

  // A chat in a dialog.

  setUpFrame() {
    const { frame } = this;
    if (this.mode === "launcher") {
      this.launcher = document.createElement("button");
      Object.assign(this.launcher, { type: "button", className: "kc kc-launcher" });
      this.launcher.part = "launcher";
      this.launcher.setAttribute("aria-expanded", "false");
      this.launcher.addEventListener("click", () => (frame.open ? this.element.close() : this.element.open()));
      this.root.append(this.launcher);
      const small = matchMedia("(max-width: 480px), (max-height: 480px)");
      small.addEventListener("change", () => {
        if (!frame.open) return;
        frame.close();
        this.place(small.matches);
      });
      this.isSmall = () => small.matches;
    }
    frame.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.isComposing || this.root.querySelector(".kc-ask[open]")) return;
      event.preventDefault();
      event.stopPropagation();
      this.element.close();
    });
    frame.addEventListener("cancel", (event) => event.target === frame && event.preventDefault()); // the key above closes it
  }

  get isOpen() {
    return !this.frame || this.frame.open;
  }

  open(takesFocus = true) {
    if (!this.frame || this.frame.open) return false;
    this.before = this.mode === "launcher" ? this.launcher : document.activeElement;
    this.place(this.mode === "modal" || this.isSmall());
    this.launcher?.setAttribute("aria-expanded", "true");
    if (takesFocus) this.box.focus();
    this.keepEnd();
    return true;
  }

  place(isModal) {
    if (isModal) this.frame.showModal();
    else this.frame.show();
  }

  close() {
    if (!this.frame?.open) return false;
    this.frame.close();
    this.launcher?.setAttribute("aria-expanded", "false");
    this.before?.focus?.();
    return true;
  }
}

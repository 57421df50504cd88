// The composer. A message is shown at once and sent by htmx with an idempotency key: sent twice, it is stored once.
// Until the server has confirmed it, it is kept in the browser: it is sent again when the network is back, and by the
// next visit of the page.
import { Attachments, listFiles } from "./attachments.js";
import { explain } from "./requests.js";
import { newId } from "./ids.js";
import { Unsent } from "./unsent.js";

const HOLD = 4000; // milliseconds in which a message that acts on the present answer can be taken back
const HELD = { steer: "Joins the answer", interrupt: "Interrupts the answer" };
const RESEND = 5000; // milliseconds between two tries
const NOT_SENT = "Not sent: there is no network. It is sent by itself when the network is back.";
// The connection was lost while the message was under way. By its key, the server stores it once.
const MAYBE_SENT = "May have been sent: the server did not confirm it. It is sent again by itself, and stored once.";

export function setUpComposer(session, log, scroll) {
  const form = document.getElementById("composer");
  const composer = new Composer(form, session, log, scroll);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    composer.send();
  });
  document.addEventListener("click", (event) => {
    const turn = event.target.closest(".take-back")?.closest(".turn");
    if (turn) composer.takeBack(turn);
    if (event.target.closest(".answer-now")) composer.stopRunning();
    const starter = event.target.closest(".starter, .answer-option");
    if (starter) composer.send(starter.textContent);
  });
  return composer;
}

// Whether the server has not taken the message but asks for a login, after which the next visit sends it.
function isLogin(xhr) {
  return /^\/login\b/.test(xhr.getResponseHeader("HX-Redirect") ?? "");
}

class Composer {
  #form;
  #box = document.getElementById("message");
  #count = document.getElementById("count");
  #draft;
  #log;
  #scroll;
  #isStart;
  #isRedirecting = false;
  #posted; // the end of the last request
  #unsent;
  #commands; // loaded when one is written
  #attachments = new Attachments((some) => this.#box.toggleAttribute("required", !some));

  constructor(form, session, log, scroll) {
    this.#form = form;
    this.#log = log;
    this.#scroll = scroll;
    this.#isStart = !session;
    const { user } = document.body.dataset; // browsers are shared
    this.#unsent = new Unsent(user, session);
    this.#draft = `komand.draft.${user}.${session ?? "new"}`;
    this.#box.value ||= sessionStorage.getItem(this.#draft) ?? "";
    this.#box.addEventListener("input", () => this.#changed());
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    document.getElementById("stop").addEventListener("htmx:configRequest", (event) => {
      event.detail.parameters.set("run", log.running() ?? "");
    });
    document.body.addEventListener("htmx:beforeSwap", (event) => this.#takeTurn(event));
    document.body.addEventListener("komand:stored", ({ detail: key }) => this.#unsent.drop(key));
    addEventListener("online", () => this.#sendAgain());
    setInterval(() => navigator.onLine && this.#sendAgain(), RESEND); // a server that was away sends no event
    this.#changed();
    this.#restore();
  }

  // Show what an earlier visit has not sent, and send it. What the server has refused waits for the user.
  async #restore() {
    for (const message of this.#unsent.list()) {
      if (this.#isRedirecting) break; // the first one creates the chat
      const item = this.#show(message);
      if (message.refused) this.#showFailed(item, message.refused);
      else await this.#post(item, message);
    }
  }

  // Send what did not reach the server, one after the other: they stay in their order.
  async #sendAgain() {
    for (const button of document.querySelectorAll(".sending[data-offline]:not(.htmx-request) .again")) {
      if (this.#isRedirecting) break; // the first one creates the chat
      button.click();
      await this.#posted;
    }
  }

  focus() {
    this.#box.focus();
  }

  running() {
    return this.#log.running();
  }

  // Stop the answer that is being written: the first message in line is answered next.
  stopRunning() {
    const run = this.#log.running();
    if (run) htmx.ajax("POST", this.#form.action.replace(/messages$/, "stop"), { swap: "none", values: { run } });
  }

  // Put a text into the box in place of what is there.
  complete(text) {
    this.#set(text);
    this.focus();
  }

  // Send the text of the box, or the given text. A command of the box is carried out.
  send(text) {
    if (text === undefined && this.#box.value.startsWith("/")) {
      if (!this.#commands) {
        this.#loadCommands().then(() => this.send());
        return;
      }
      if (this.#commands.isCommand(this.#box.value)) {
        this.complete(this.#commands.run(this.#box.value));
        return;
      }
    }
    text ??= this.#box.value;
    if (!(text.trim() || this.#attachments.some) || this.#isRedirecting || !this.#attachments.areReady()) {
      this.focus();
      return;
    }
    const files = this.#attachments.take().map(({ id, name, size }) => ({ id, name, size }));
    const key = newId();
    const values = { text, key, files: files.map(({ id }) => id).join(",") };
    if (this.#isStart) values.agent = document.getElementById("agent").value;
    const { draft } = this.#form.elements; // of a chat that tries the draft of an agent
    if (draft) values.draft = draft.value;
    const chosen = this.#form.elements.busy?.value; // of a chat whose agent does not reject messages
    if (this.#log.running() && chosen) values.busy = chosen;
    const message = { key, values, files };
    this.#unsent.keep(message);
    this.#set("");
    const item = this.#show(message);
    if (HELD[values.busy]) hold(item, HELD[values.busy], () => this.#post(item, message));
    else this.#post(item, message);
  }

  #show(message) {
    const item = document.getElementById("sending-pattern").content.firstElementChild.cloneNode(true);
    const text = message.values.text.trim();
    item.id = `sending-${message.key}`;
    item.querySelector(".bubble").textContent = text;
    item.querySelector(".bubble").hidden = !text;
    listFiles(item.querySelector(".sent-files"), message.files);
    item.dataset.busy = message.values.busy ?? "";
    item.querySelector(".recall").addEventListener("click", () => this.#edit(item, message));
    item.querySelector(".again").addEventListener("click", () => this.#post(item, message));
    item.querySelector(".edit").addEventListener("click", () => this.#edit(item, message));
    this.#log.begin();
    document.getElementById("note").textContent = "";
    document.getElementById("sending").append(item);
    this.#scroll.toEnd();
    return item;
  }

  // Return a promise of the end of the request.
  #post(item, message) {
    // The first message creates the chat: a second one sent before the redirect would create another.
    this.#isRedirecting = this.#isStart;
    item.querySelector(".sending-state").hidden = false;
    item.querySelector(".sending-failed").hidden = true;
    item.toggleAttribute("data-offline", false);
    const wasOnline = navigator.onLine;
    const ended = ({ detail: { xhr } }) => {
      if (!(xhr.status >= 200 && xhr.status < 400)) this.#failed(item, message, xhr, wasOnline);
      else if (!isLogin(xhr)) this.#unsent.drop(message.key);
    };
    item.addEventListener("htmx:afterRequest", ended, { once: true });
    const { values } = message;
    const sent = htmx.ajax("POST", this.#form.action, { source: item, target: item, swap: "none", values });
    this.#posted = sent.catch(() => {}); // handled by the event above
    return this.#posted;
  }

  // The log places turns, whichever element requested them.
  #takeTurn({ detail }) {
    if (detail.isError || !detail.xhr.getResponseHeader("X-New-Turn")) return;
    detail.shouldSwap = false;
    const run = detail.xhr.getResponseHeader("X-New-Turn");
    if (detail.target.classList.contains("sending")) {
      this.#log.showJoined(detail.target, run);
      detail.target.remove();
    }
    this.#log.show(detail.serverResponse);
    this.#scroll.toEnd();
  }

  #failed(item, message, xhr, wasOnline) {
    this.#isRedirecting = false;
    if (!item.isConnected) return; // the stored message has replaced it: only the answer was lost
    if (xhr.status) {
      explain(xhr, item.querySelector(".sending-problem"));
      this.#unsent.keep({ ...message, refused: item.querySelector(".sending-problem").textContent });
      this.#showFailed(item);
    } else {
      item.toggleAttribute("data-offline", true);
      this.#showFailed(item, wasOnline ? MAYBE_SENT : NOT_SENT);
    }
  }

  // problem: empty if it is shown already.
  #showFailed(item, problem = "") {
    item.querySelector(".sending-state").hidden = true;
    item.querySelector(".sending-failed").hidden = false;
    if (problem) item.querySelector(".sending-problem").textContent = problem;
    this.#scroll.toEnd();
  }

  // Put the text of a queued or removed message into the box, in front of what is there.
  takeBack(turn) {
    this.#putBefore(turn.querySelector(".bubble").textContent);
    if (turn.hasAttribute("data-removed")) turn.remove();
    else turn.toggleAttribute("data-taken-back", true);
    this.focus();
  }

  #edit(item, { key, values, files }) {
    item.remove();
    this.#unsent.drop(key);
    this.#attachments.restore(files);
    this.#putBefore(values.text);
    this.focus();
  }

  // Put a text into the box, in front of what is there.
  #putBefore(text) {
    this.#set(this.#box.value.trim() ? `${text}\n\n${this.#box.value}` : text);
  }

  #set(text) {
    this.#box.value = text;
    this.#changed();
  }

  #changed() {
    sessionStorage.setItem(this.#draft, this.#box.value);
    if (this.#box.value.startsWith("/")) this.#suggest();
    else this.#commands?.hide();
    const length = Array.from(this.#box.value).length;
    const longest = Number(this.#box.dataset.longest);
    this.#count.textContent = length > longest * 0.9 ? `${length.toLocaleString("en")} of ${longest.toLocaleString("en")}` : "";
    this.#count.toggleAttribute("data-over", length > longest);
    if (!CSS.supports("field-sizing", "content")) {
      this.#box.style.height = "auto";
      this.#box.style.height = `${this.#box.scrollHeight}px`;
    }
  }

  async #loadCommands() {
    const { Commands } = await import("./commands.js");
    this.#commands ??= new Commands(this);
  }

  async #suggest() {
    await this.#loadCommands();
    if (document.activeElement === this.#box) this.#commands.suggest();
  }

  #key(event) {
    if (event.isComposing || (this.#commands?.isOpen && this.#commands.key(event))) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && !this.#box.value) {
      const last = this.#log.lastQuestion();
      if (!last) return;
      event.preventDefault();
      this.#set(last);
      this.#box.setSelectionRange(last.length, last.length);
    }
  }
}

// Show for a while that a message is going to be sent, and send it. Until then it can be taken back.
function hold(item, label, send) {
  const held = item.querySelector(".sending-held");
  const until = Date.now() + HOLD;
  const show = () => {
    if (!item.isConnected) return clearInterval(timer);
    const seconds = Math.ceil((until - Date.now()) / 1000);
    if (seconds <= 0) return go();
    held.querySelector("span").textContent = `${label} in ${seconds} s`;
  };
  const go = () => {
    clearInterval(timer);
    held.hidden = true;
    send();
  };
  const timer = setInterval(show, 250);
  held.querySelector(".send-now").addEventListener("click", go);
  held.hidden = false;
  item.querySelector(".sending-state").hidden = true;
  show();
}

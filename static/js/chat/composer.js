// The composer. A message is shown at once and sent by htmx with an idempotency key: sent twice, it is stored once.
import { Attachments, listFiles } from "./attachments.js";
import { explain } from "./requests.js";
import { newId } from "./ids.js";

export function setUpComposer(session, log, scroll) {
  const form = document.getElementById("composer");
  const composer = new Composer(form, session, log, scroll);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    composer.send();
  });
  document.addEventListener("click", (event) => {
    const turn = event.target.closest(".take-back")?.closest(".turn");
    if (turn) composer.takeBack(turn.querySelector(".bubble").textContent);
    const starter = event.target.closest(".starter, .answer-option");
    if (starter) composer.send(starter.textContent);
  });
  return composer;
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
  #attachments = new Attachments((some) => this.#box.toggleAttribute("required", !some));

  constructor(form, session, log, scroll) {
    this.#form = form;
    this.#log = log;
    this.#scroll = scroll;
    this.#isStart = !session;
    this.#draft = `komand.draft.${session ?? "new"}`;
    this.#box.value ||= sessionStorage.getItem(this.#draft) ?? "";
    this.#box.addEventListener("input", () => this.#changed());
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    document.getElementById("stop").addEventListener("htmx:configRequest", (event) => {
      event.detail.parameters.set("run", log.running() ?? "");
    });
    document.body.addEventListener("htmx:beforeSwap", (event) => this.#takeTurn(event));
    this.#changed();
  }

  focus() {
    this.#box.focus();
  }

  // Send the text of the box, or the given text.
  send(text = this.#box.value) {
    if (!(text.trim() || this.#attachments.some) || this.#isRedirecting || !this.#attachments.areReady()) {
      this.focus();
      return;
    }
    const files = this.#attachments.take();
    // The first message creates the chat: a second one sent before the redirect would create another.
    this.#isRedirecting = this.#isStart;
    const message = document.getElementById("sending-pattern").content.firstElementChild.cloneNode(true);
    const key = newId();
    message.id = `sending-${key}`;
    message.querySelector(".bubble").textContent = text.trim();
    message.querySelector(".bubble").hidden = !text.trim();
    listFiles(message.querySelector(".sent-files"), files);
    message.querySelector(".again").addEventListener("click", () => this.#post(message, key, text, files));
    message.querySelector(".edit").addEventListener("click", () => this.#edit(message, text, files));
    document.getElementById("welcome")?.setAttribute("hidden", "");
    document.getElementById("note").textContent = "";
    document.getElementById("sending").append(message);
    this.#set("");
    this.#scroll.toEnd();
    this.#post(message, key, text, files);
  }

  #post(message, key, text, files) {
    message.querySelector(".sending-state").hidden = false;
    message.querySelector(".sending-failed").hidden = true;
    const values = { text, key, files: files.map(({ id }) => id).join(",") };
    if (this.#isStart) values.agent = document.getElementById("agent").value;
    const { draft } = this.#form.elements; // of a chat that tries the draft of an agent
    if (draft) values.draft = draft.value;
    const failed = (event) => this.#failed(message, event.detail.xhr);
    message.addEventListener("htmx:responseError", failed, { once: true });
    message.addEventListener("htmx:sendError", failed, { once: true });
    const sent = htmx.ajax("POST", this.#form.action, { source: message, target: message, swap: "none", values });
    sent.catch(() => {}); // handled by the events above
  }

  // The log places turns, whichever element requested them.
  #takeTurn({ detail }) {
    if (detail.isError || !detail.xhr.getResponseHeader("X-New-Turn")) return;
    detail.shouldSwap = false;
    if (detail.target.classList.contains("sending")) detail.target.remove();
    this.#log.show(detail.serverResponse);
    this.#scroll.toEnd();
  }

  #failed(message, xhr) {
    this.#isRedirecting = false;
    message.querySelector(".sending-state").hidden = true;
    message.querySelector(".sending-failed").hidden = false;
    explain(xhr, message.querySelector(".sending-problem"));
    this.#scroll.toEnd();
  }

  // Put a text into the box, in front of what is there.
  takeBack(text) {
    this.#set(this.#box.value.trim() ? `${text}\n\n${this.#box.value}` : text);
    this.focus();
  }

  #edit(message, text, files) {
    message.remove();
    this.#attachments.restore(files);
    this.#set(text);
    this.focus();
  }

  #set(text) {
    this.#box.value = text;
    this.#changed();
  }

  #changed() {
    sessionStorage.setItem(this.#draft, this.#box.value);
    const length = Array.from(this.#box.value).length;
    const longest = Number(this.#box.dataset.longest);
    this.#count.textContent = length > longest * 0.9 ? `${length.toLocaleString("en")} of ${longest.toLocaleString("en")}` : "";
    this.#count.toggleAttribute("data-over", length > longest);
    if (!CSS.supports("field-sizing", "content")) {
      this.#box.style.height = "auto";
      this.#box.style.height = `${this.#box.scrollHeight}px`;
    }
  }

  #key(event) {
    if (event.isComposing) return;
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

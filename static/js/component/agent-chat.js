// The conversation of a user of the site with an agent: a thread of AG-UI, shown by the frames of the chat page.
import { edit } from "../chat/versions.js";
import { newId } from "../webchat/conversation.js";
import { AgUi, Refused } from "./ag-ui.js";
import { contextOf } from "./message-context.js";
import { download, partOf } from "./file-parts.js";
import { PageLog } from "./page-log.js";
import { siteStorage } from "./storage.js";

const VIEW = { view: "page" };

export class AgentChat {
  longest = 200_000; // characters of a message

  constructor(element, base) {
    this.element = element;
    this.base = base;
    this.agent = element.getAttribute("agent");
    this.store = siteStorage(`komand.chat ${base} ${this.agent}`);
    this.thread = element.getAttribute("thread") || this.store.load() || newId();
  }

  kind = "agent";

  start(shell) {
    this.shell = shell;
    this.log = new PageLog(shell, () => this.onChange());
    this.client = new AgUi(this.base, this.agent, {
      getToken: (why) => this.requestToken(why),
      onConnection: (isConnected) => shell.setConnected(isConnected),
    });
    this.begin();
    shell.log.addEventListener("submit", (event) => this.answerByForm(event));
    shell.log.addEventListener("click", (event) => this.followLink(event));
    this.onVisible = () => {
      const isWriting = shell.log.contains(shell.root.activeElement); // such as a note, which must not be lost
      if (document.visibilityState === "visible" && this.interrupts.length && !isWriting) this.show();
    };
    document.addEventListener("visibilitychange", this.onVisible);
    return this.show();
  }

  stopAll() {
    this.left.abort();
    this.log.stop();
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  begin() {
    this.left?.abort();
    this.left = new AbortController();
    this.runs = new Map(); // the streams that are open: our id → id at the server
    this.joined = new Set(); // our ids of those whose message has joined a run that is shown
    this.interrupts = []; // those that are open
    this.answers = new Map(); // by the id of an approval, or that of a question's call
  }

  async requestToken(why) {
    const { getToken } = this.element;
    const given = typeof getToken === "function" ? await getToken(why) : "";
    const token = typeof given === "string" ? given : given?.token;
    if (!token) throw new Refused(401, { message: this.shell.texts.notSignedIn, code: "not_signed_in" });
    return token;
  }

  // Show the thread as it is, and follow the run that is open.
  show() {
    return this.run({ messages: [], forwardedProps: { komand: { ...VIEW, thread: true } } });
  }

  input(runId, fields) {
    return { threadId: this.thread, runId, messages: [], state: {}, tools: [], context: [], forwardedProps: { komand: VIEW }, ...fields };
  }

  async run(fields) {
    const id = newId();
    const { signal } = this.left;
    const input = this.input(id, fields);
    const isNew = !input.forwardedProps.komand.thread;
    if (isNew) this.runs.set(id, "");
    this.onChange();
    try {
      const last = await this.client.run(input, (event) => this.see(id, event), signal);
      this.runs.delete(id);
      if (last.type === "RUN_ERROR") this.showError(last);
      else this.interrupts = last.outcome?.interrupts ?? [];
      if (!this.joined.has(id) && (isNew || last.outcome?.type !== "success")) this.element.tell("run-end", { runId: this.runId ?? "", outcome: last.outcome?.type ?? "error" });
      this.onChange();
      if (this.interrupts.length) {
        this.element.tell("interrupt", { interrupts: this.interrupts });
        this.sendAnswers();
      }
      return true;
    } catch (error) {
      this.runs.delete(id);
      if (signal.aborted) return true;
      this.onChange();
      this.showError(error);
      return false;
    }
  }

  see(id, event) {
    if (event.type === "CUSTOM" && event.name === "komand.page") {
      if (!this.log.apply(event.value.acts)) this.showAgain();
      return;
    }
    if (event.type === "RUN_STARTED") {
      const run = event.metadata?.komand?.runId;
      if (run) {
        const isShown = [...this.runs.values()].includes(run); // the message has joined it
        this.runId = run;
        this.runs.set(id, run);
        this.store.save(this.thread);
        if (isShown) this.joined.add(id);
        else this.element.tell("run-start", { runId: run, threadId: this.thread });
      }
      this.onChange();
    }
    this.element.tell("event", event);
  }

  // Show the turns before the ordinal that the button names.
  async showOlder(button) {
    button.disabled = true;
    const before = Number(new URLSearchParams(button.getAttribute("hx-get").split("?")[1]).get("before"));
    if (!(await this.showFrames({ thread: true, before }))) button.disabled = false;
  }

  // Ask for frames beside those of runs. Return whether they are shown.
  showFrames(wish) {
    const input = this.input(newId(), { forwardedProps: { komand: { ...VIEW, ...wish } } });
    return this.attempt(() => this.client.run(input, (event) => {
      if (event.type === "CUSTOM" && event.name === "komand.page") this.log.apply(event.value.acts);
    }, this.left.signal));
  }

  // Text is missing: show what is stored, and follow from there.
  showAgain() {
    clearTimeout(this.again);
    this.again = setTimeout(() => this.show(), 500);
  }

  // Carry out what the user asked for. Return whether it succeeded; else say why.
  async attempt(action) {
    const { signal } = this.left;
    try {
      await action();
      this.shell.note("");
      return true;
    } catch (error) {
      if (!signal.aborted) this.showError(error);
      return false;
    }
  }

  showError({ message, code, status }) {
    this.shell.note(status === 401 && code !== "not_signed_in" ? this.shell.texts.notSignedIn : message);
    this.element.tell("error", { message, code: code || "", status: status ?? 0 });
  }

  onChange() {
    this.shell.setRunning(this.runs.size > 0 && this.shell.log.querySelector(".answer[data-open]") !== null);
  }

  // Messages.

  get question() {
    return this.interrupts.find(({ reason }) => reason === "input_required");
  }

  mayMessage() {
    const isAsked = !this.question && this.interrupts.length > 0;
    if (isAsked) this.shell.note(this.shell.texts.decideFirst);
    return !isAsked;
  }

  async send(text, files = []) {
    if (this.question && !files.length) {
      this.answers.set(callOf(this.question), { answer: text });
      return this.sendAnswers();
    }
    const sending = this.showSending(text, files);
    try {
      const content = files.length ? [...(text ? [{ type: "text", text }] : []), ...(await Promise.all(files.map(partOf)))] : text;
      const context = await contextOf(this.element.messageContext);
      const busy = this.element.getAttribute("while-busy") ?? "steer";
      const forwardedProps = { komand: { ...VIEW, busy } };
      const isSent = await this.run({ messages: [{ id: newId(), role: "user", content }], context, forwardedProps });
      if (!isSent && sending.isConnected && this.shell.takeBack(text, files)) sending.remove();
    } catch (error) {
      sending.remove();
      this.shell.takeBack(text, files);
      this.showError(error);
    }
    sending.remove();
    this.log.apply([]);
  }

  showSending(text, files) {
    const sending = document.createElement("article");
    sending.className = "question sending";
    sending.toggleAttribute("data-joins", (this.element.getAttribute("while-busy") ?? "steer") === "steer" && !files.length);
    const bubble = document.createElement("div");
    Object.assign(bubble, { className: "bubble", dir: "auto", textContent: [text, ...files.map(({ name }) => name)].filter(Boolean).join("\n") });
    const state = document.createElement("p");
    Object.assign(state, { className: "sending-state", textContent: this.shell.texts.sending });
    sending.append(bubble, state);
    this.shell.byId("sending").append(sending);
    this.shell.setMessages(true);
    this.shell.keepEnd(true);
    return sending;
  }

  // Requests.

  answerByForm(event) {
    event.preventDefault();
    const form = event.target;
    const button = event.submitter;
    if (form.matches(".input-request")) {
      const call = form.id.replace(/^input-/, "").replaceAll("-", "");
      if (button?.name === "decline") this.answers.set(call, null);
      else {
        const answer = answerOf(form, button);
        if (!answer) return;
        this.answers.set(call, { answer });
      }
    } else if (form.matches(".feedback-comment")) {
      return this.rate(runOf(form), Object.fromEntries(new FormData(form)));
    } else if (form.matches(".workstream-write")) {
      const { text } = form.elements;
      const run = runOf(form);
      return this.attempt(() => this.client.command(`api/runs/${run}/messages`, { text: text.value }).then(() => { text.value = "" }));
    } else {
      const approval = form.getAttribute("action")?.match(/approvals\/([^/]+)\/decide/)?.[1];
      if (!approval) return; // a form of the page that the component does not offer
      const decision = button?.value ?? "deny";
      const note = form.querySelector("[name=note]")?.value.trim();
      this.answers.set(approval, { approved: decision !== "deny", decision, ...(note ? { note } : {}) });
    }
    for (const control of form.querySelectorAll("button, input")) control.disabled = true;
    this.sendAnswers();
  }

  // Send the answers to the requests of a run or workstream once all of them are there.
  sendAnswers() {
    const groups = Map.groupBy(this.interrupts, ({ subagentRunId }) => subagentRunId ?? "");
    const keyOf = (asked) => (this.answers.has(asked.id) ? asked.id : callOf(asked));
    const ready = [...groups.values()].filter((group) => group.every((asked) => this.answers.has(keyOf(asked)))).flat();
    if (!ready.length) {
      if (this.interrupts.some((asked) => this.answers.has(keyOf(asked)))) this.shell.note(this.shell.texts.waitsForOthers);
      return;
    }
    const resume = ready.map((asked) => {
      const payload = this.answers.get(keyOf(asked));
      return { interruptId: asked.id, ...(payload ? { status: "resolved", payload } : { status: "cancelled" }) };
    });
    this.answers.clear();
    this.interrupts = [];
    this.shell.note("");
    return this.run({ messages: [], resume }).then((isDone) => isDone || this.show());
  }

  async stop() {
    for (const run of new Set(this.runs.values())) if (run) await this.client.cancel(run);
  }

  async reset() {
    this.begin();
    this.thread = newId();
    this.store.save("");
    this.log.clear();
    this.onChange();
    this.element.tell("reset", {});
  }

  // The page's buttons about messages, answers and workstreams.
  press(button) {
    if (button.matches(".edit-message")) {
      const turn = button.closest(".turn");
      return edit(turn, (text) => this.replace(turn.dataset.run, text));
    }
    if (button.closest(".older")) return this.showOlder(button);
    const run = runOf(button);
    const command = button.getAttribute("hx-post")?.split("/").at(-1);
    if (command === "regenerate") return this.replace(run);
    if (command === "branch") return this.showFrames({ thread: true, branch: Number(button.value) });
    if (command === "feedback") return this.rate(run, JSON.parse(button.getAttribute("hx-vals")));
    const done = {
      retry: () => this.client.command(`api/runs/${run}/retry`).then(() => this.show()),
      stop: () => this.client.cancel(run),
      pause: () => this.client.command(`api/runs/${run}/steer`, { command: button.value ? "pause" : "resume" }),
    }[command];
    if (done) return this.attempt(done);
  }

  // Store what the reader thinks of an answer: {rating, comment}, as the page's buttons and form say it.
  rate(run, values) {
    return this.showFrames({ rating: { run, ...values } });
  }

  // Replace the message of a run by a text, or without one its answer. Return whether the new run was shown to its end.
  replace(run, text = "") {
    const messages = text ? [{ id: newId(), role: "user", content: text }] : [];
    return this.run({ messages, forwardedProps: { komand: { ...VIEW, replaces: run } } });
  }

  // Links inside of the conversation, and to its files, which are loaded with the token.
  async followLink(event) {
    const button = event.target.closest("button");
    if (button?.matches(".answer-option")) return this.element.send(button.textContent.trim());
    if (button) return this.press(button);
    const link = event.target.closest("a[href]");
    const href = link?.getAttribute("href") ?? "";
    if (href && !href.startsWith("#") && !this.element.tell("link", { href }, true)) return event.preventDefault();
    if (href.startsWith("#")) {
      event.preventDefault();
      const target = this.shell.byId(href.slice(1));
      for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      target?.scrollIntoView({ block: "nearest" });
    } else if (href.startsWith("/")) {
      event.preventDefault();
      await this.attempt(async () => download(await this.client.load(href), link.textContent.trim()));
    }
  }
}

// The run that a button or form of the page is about.
function runOf(control) {
  return control.getAttribute("hx-post")?.split("/")[3];
}

function callOf({ toolCallId }) {
  return toolCallId.replace(/^call_/, "");
}

// The answer that a form has: that of a button, or one line for each question.
function answerOf(form, button) {
  if (button?.classList.contains("answer-choice")) return button.textContent.trim();
  const lines = [...form.querySelectorAll("fieldset")].map((field) => {
    const chosen = [...field.querySelectorAll("input:checked")].map((input) => input.nextElementSibling.firstChild.textContent.trim());
    const text = field.querySelector("input[type=text]")?.value.trim();
    return [...chosen, ...(text ? [text] : [])].join(", ");
  });
  if (lines.some((line) => !line)) return "";
  return lines.length > 1 ? lines : lines[0];
}

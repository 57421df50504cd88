// Applies the server's frames (acts) to the page. They are idempotent, and ignored for turns that have ended.
import { showAgent } from "./agents.js";
import { announce, beginningOf } from "./announcer.js";
import { groupCall, showGroupState } from "./call-groups.js";
import { showFiles } from "./files.js";
import { discardReasoning, showReasoning, timeReasoning } from "./reasoning.js";
import { GAP, StepText } from "./step-text.js";
import { refreshNeeds } from "./sidebar.js";
import { StepView } from "./step-view.js";
import { keepColumns, tablesIn } from "./tables.js";
import { showBranch } from "./versions.js";
import { insertByStep, ownerOf, reveal, showWorkstream } from "./workstreams.js";

const byId = (id) => document.getElementById(id);
const GROWS = new Set(["text", "reasoning"]); // acts that add to a text alone
const UNDO_TIME = 10_000; // milliseconds in which a removed message can be taken back
const swap = (target, html, swapStyle) => htmx.swap(target, html, { swapStyle });

export class Log {
  #root = byId("log");
  #steps = new Map(); // "run/step" → {text, part, view}
  #unpainted = new Set();
  #frame = 0;
  #open = []; // answers and workstreams that are not complete
  #scroll;
  #onChange;

  // onChange: called when a run has begun or ended, or waits for an approval.
  constructor(scroll, onChange) {
    this.#scroll = scroll;
    this.#onChange = onChange;
    setInterval(() => this.#countDown(), 250);
  }

  // Apply frames in order. Returns false if text is missing before one; the rest is then applied only with `pastGaps`.
  apply(acts, pastGaps = false) {
    let whole = true;
    this.#scroll.keeping(() => {
      for (const act of acts) {
        whole = this.#act(act) && whole;
        if (!whole && !pastGaps) break;
      }
    });
    if (acts.some((act) => !GROWS.has(act.do))) this.refresh(); // it looks at the whole conversation
    return whole;
  }

  // Remove the greeting and the starters of a new chat.
  begin() {
    byId("welcome")?.remove();
    document.querySelector(".main").removeAttribute("data-new");
  }

  // Show a turn that a request returned.
  show(html) {
    const turn = parsed(html, ".turn");
    if (turn) this.apply([{ do: "turn", run: turn.dataset.run, place: turn.dataset.place, html }]);
  }

  // Show in the running answer a message that has joined it. sending: the message; run: of its turn.
  showJoined(sending, run) {
    const parts = sending.dataset.busy === "steer" && this.running() === run && this.#openParts(run);
    if (!parts) return;
    const joined = byId("joined-pattern").content.firstElementChild.cloneNode(true);
    joined.append(sending.querySelector(".bubble").textContent);
    parts.append(joined);
    announce("The message has joined the answer.");
  }

  // Update everything that depends on the whole conversation.
  refresh() {
    this.#open = [...this.#root.querySelectorAll(".answer[data-open], .workstream[data-open]")];
    const waits = this.#root.querySelector(".status[data-workstreams]");
    if (waits) import("./workstream-counts.js").then(({ showCounts }) => showCounts(this.#root));
    const running = this.running();
    byId("stop").hidden = !running;
    document.body.toggleAttribute("data-busy", Boolean(running));
    this.#root.setAttribute("aria-busy", String(Boolean(running)));
    const pending = this.#root.querySelector(".approval[data-pending]");
    byId("skip-approval").hidden = !pending;
    byId("skip-approval").href = pending ? `#${pending.id}` : "#log";
    if (pending || this.#root.querySelector(".is-question:not([data-over], [data-answered])")) refreshNeeds(true);
    else refreshNeeds();
    this.#countDown();
  }

  // Show a question of a loaded page from its top on.
  showAsked() {
    const asked = this.#root.querySelector(".call.is-question:not([data-over], [data-answered])");
    if (!asked) return;
    this.#scroll.keeping(() => this.#scroll.showTop(asked));
    announce([...asked.querySelectorAll(".input-request-text")].map(({ textContent }) => textContent).join("\n"));
  }

  // The run in progress, or undefined.
  running() {
    return [...this.#root.querySelectorAll(".answer[data-open]")].find((answer) => !answer.querySelector("[data-queued]"))
      ?.dataset.run;
  }

  lastQuestion() {
    return [...document.querySelectorAll(".question .bubble")].at(-1)?.textContent ?? "";
  }

  #act(act) {
    switch (act.do) {
      case "turn":
        this.#showTurn(act);
        break;
      case "text":
        return this.#takeText(act);
      case "reasoning":
        this.#showReasoning(act);
        break;
      case "forget":
        this.#discardText(act);
        break;
      case "call":
        this.#showCall(act);
        break;
      case "change":
        this.#changeCall(act);
        break;
      case "question":
        this.#showQuestion(act);
        break;
      case "approval":
        this.#showApproval(act);
        break;
      case "status":
        this.#showStatus(act);
        break;
      case "work":
        this.#showWork(act);
        break;
      case "workstream":
        this.#showWorkstream(act);
        break;
      case "answer":
        this.#showAnswer(act);
        break;
      case "files":
        showFiles(act);
        break;
      case "branch":
        this.#showBranch(act);
        break;
      case "agent":
        showAgent(act.agent);
    }
    return true;
  }

  #showTurn({ run, place, message, html }) {
    if (message) {
      const sending = byId(`sending-${message}`);
      if (sending) this.showJoined(sending, run);
      sending?.remove();
      document.body.dispatchEvent(new CustomEvent("komand:stored", { detail: message }));
    }
    const shown = byId(`turn-${run}`);
    if (shown) {
      updateQuestion(shown, html);
      return;
    }
    this.begin();
    const next = [...this.#root.querySelectorAll(".turn")].find((other) => Number(other.dataset.place) > Number(place));
    if (next) swap(next, html, "beforebegin");
    else swap(this.#root, html, "beforeend");
    this.#onChange();
  }

  #showBranch({ place, html, say }) {
    showBranch(this.#root, place, () => swap(this.#root, html, "innerHTML"), (pixels) => this.#scroll.shift(pixels));
    if (say) announce(say);
    this.#onChange();
  }

  #takeText(act) {
    const parts = this.#openParts(act.run);
    const step = parts && this.#step(parts, act.run, act.step);
    if (!step) return true; // the run has ended, or the page has the stored text
    const fresh = step.text.take(act);
    if (fresh === GAP) return false;
    step.view.add(fresh);
    ownerOf(parts).toggleAttribute("data-writing", true);
    this.#paintSoon(step);
    return true;
  }

  #step(parts, run, number) {
    const key = `${run}/${number}`;
    const known = this.#steps.get(key);
    if (known?.part.isConnected) return known;
    if (parts.querySelector(`.text[data-step="${number}"][data-closed]`)) return undefined;
    const part = byId("text-pattern").content.firstElementChild.cloneNode(true);
    part.dataset.step = number;
    const isLater = ({ dataset, classList }) => dataset.step - number >= (classList.contains("reasoning") ? 1 : 0);
    const later = [...parts.children].find(isLater);
    parts.insertBefore(part, later ?? null);
    const step = { text: new StepText(), part, view: new StepView(part) };
    this.#steps.set(key, step);
    return step;
  }

  #showReasoning(act) {
    const parts = this.#openParts(act.run);
    if (!parts) return;
    showReasoning(parts, act);
    ownerOf(parts).toggleAttribute("data-writing", true);
  }

  #discardText({ run, step: number, reasoning }) {
    if (reasoning) discardReasoning(run, number);
    const key = `${run}/${number}`;
    const step = this.#steps.get(key);
    if (!step || step.part.hasAttribute("data-closed")) return;
    step.part.remove();
    this.#steps.delete(key);
  }

  // Paint once per animation frame, however often text comes.
  #paintSoon(step) {
    this.#unpainted.add(step);
    this.#frame ||= requestAnimationFrame(() => this.#scroll.keeping(() => this.#paint()));
  }

  #paint() {
    this.#frame = 0;
    for (const { text, view } of this.#unpainted) view.paint(text);
    this.#unpainted.clear();
  }

  #showCall({ run, step, call, html }) {
    const parts = this.#openParts(run);
    if (!parts || byId(`call-${call}`)) return;
    this.#closeStep(parts, run, step);
    insertByStep(parts, step, html);
    const card = byId(`call-${call}`);
    groupCall(card);
    if (!card.matches(".is-question")) return;
    reveal(card);
    this.#scroll.showTop(card);
    this.#onChange();
  }

  // The text before a call is complete.
  #closeStep(parts, run, number) {
    this.#paint();
    parts.querySelector(`.text[data-step="${number}"]`)?.toggleAttribute("data-closed", true);
    ownerOf(parts).toggleAttribute("data-writing", false);
  }

  #changeCall({ call, state, result, file }) {
    const card = byId(`call-${call}`);
    // The live event that a call has started may be late; the result is final.
    if (!card?.closest(".answer[data-open]") || card.hasAttribute("data-over")) return;
    swap(byId(`call-state-${call}`), state, "outerHTML");
    if (!result) return;
    swap(byId(`call-result-${call}`), result, "outerHTML");
    if (file && !byId(`written-${call}`)) swap(card, file, "afterend");
    if (card.matches(".is-quiet:not(:has(.approval, [data-bad]))")) {
      card.remove();
      return;
    }
    card.toggleAttribute("data-over", true);
    showGroupState(card);
    if (byId(`call-state-${call}`).hasAttribute("data-bad")) {
      card.open = true;
      reveal(card);
    }
    if (card.matches(".is-question")) this.#onChange();
  }

  // Show what a call asks while it runs. Its next question replaces it.
  #showQuestion({ call, html }) {
    const shown = byId(`input-${call}`);
    if (!shown) return;
    swap(shown, html, "outerHTML");
    byId(`call-${call}`).open = true;
    reveal(byId(`input-${call}`));
    this.#scroll.showTop(byId(`call-${call}`));
    this.#onChange();
  }

  // Show a request for approval. A pending one that is shown already stays, with the text typed into it.
  #showApproval({ run, call, html, state, pending, say }) {
    const shown = byId(`approval-${call}`);
    if (!shown || (pending && shown.hasAttribute("data-pending"))) return;
    const card = byId(`call-${call}`);
    const hadFocus = shown.contains(document.activeElement);
    swap(shown, html, "outerHTML");
    if (pending) reveal(card.querySelector("summary"));
    if (hadFocus) byId(`call-summary-${call}`).focus();
    if (card.closest(".answer[data-open]") && !card.hasAttribute("data-over")) {
      swap(byId(`call-state-${call}`), state, "outerHTML");
    }
    if (say) announce(say);
    this.#onChange();
  }

  #showStatus({ run, html, say }) {
    const status = byId(`status-${run}`);
    if (!status) return;
    swap(status, html, "outerHTML");
    byId(`answer-${run}`).toggleAttribute("data-writing", false);
    if (say) announce(say);
  }

  // Show the plan, the progress or a batch of an open run. What the reader has folded stays folded.
  #showWork({ run, id, html }) {
    const shown = byId(id);
    if (!shown || !this.#openParts(run)) return;
    const wasFolded = shown.matches("details:not([open])");
    swap(shown, html, "outerHTML");
    if (wasFolded) byId(id).open = false;
  }

  // Show a workstream below the call that launched it, or its state. Its end replaces what it was doing.
  #showWorkstream(act) {
    showWorkstream(this.#openParts(act.run), act);
    if (act.body) this.#forgetSteps(act.id);
    if (act.say) announce(act.say);
  }

  #forgetSteps(run) {
    for (const key of [...this.#steps.keys()]) if (key.startsWith(`${run}/`)) this.#steps.delete(key);
  }

  #showAnswer({ run, html, say }) {
    const answer = byId(`answer-${run}`);
    if (!answer?.hasAttribute("data-open")) return;
    this.#paint(); // tables of text that came with the end keep their columns, too
    const opened = [...answer.querySelectorAll("details[open][id]")].map((details) => details.id);
    const closed = [...answer.querySelectorAll("details[id]:not([open])")].map((details) => details.id);
    const frozen = tablesIn(answer);
    swap(answer, html, "outerHTML");
    this.#removeIfWithdrawn(byId(`turn-${run}`));
    document.body.dispatchEvent(new CustomEvent("komand:answered"));
    for (const id of opened) byId(id)?.toggleAttribute("open", true);
    for (const id of closed) byId(id)?.toggleAttribute("open", false);
    const stored = byId(`answer-${run}`); // none if it was withdrawn
    if (stored) tablesIn(stored).forEach((table, place) => keepColumns(table, frozen[place]));
    this.#forgetSteps(run);
    announce(say || (stored ? beginningOf(stored) : ""));
    this.#onChange();
  }

  // A message that was removed from the queue leaves the page, after a while in which it can be taken back.
  #removeIfWithdrawn(turn) {
    if (!turn?.querySelector(".not-sent") || turn.querySelector(".versions")) return;
    if (turn.hasAttribute("data-taken-back")) {
      turn.remove();
      return;
    }
    turn.toggleAttribute("data-removed", true);
    turn.append(byId("removed-pattern").content.cloneNode(true));
    setTimeout(() => turn.remove(), UNDO_TIME);
  }

  #openParts(run) {
    const parts = byId(`parts-${run}`);
    return parts && ownerOf(parts).hasAttribute("data-open") ? parts : null;
  }

  #countDown() {
    for (const open of this.#open) countDownIn(open);
  }
}

// Update the times that pass in an answer or a workstream.
function countDownIn(open) {
  timeReasoning(open);
  for (const status of open.querySelectorAll(".status[data-until]")) {
    const seconds = Math.ceil((Date.parse(status.dataset.until) - Date.now()) / 1000);
    status.querySelector(".countdown").textContent = seconds > 0 ? ` in ${seconds} s` : "…";
  }
  for (const approval of open.querySelectorAll(".approval[data-until]")) {
    const seconds = Math.ceil((Date.parse(approval.dataset.until) - Date.now()) / 1000);
    const left = approval.querySelector(".countdown");
    const text = seconds > 0 ? ` in ${duration(seconds)}` : " now";
    if (left.textContent !== text) left.textContent = text;
    approval.toggleAttribute("data-urgent", seconds < 60);
  }
  for (const left of open.querySelectorAll(".workstream-deadline[data-until]")) {
    const seconds = Math.max(0, Math.ceil((Date.parse(left.dataset.until) - Date.now()) / 1000));
    const text = `${duration(seconds)} left`;
    if (left.textContent !== text) left.textContent = text;
  }
}

function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// Update the question, to which a message was added during the answer.
function updateQuestion(turn, html) {
  const question = parsed(html, ".question");
  const shown = turn.querySelector(".question");
  if (question && shown?.textContent !== question.textContent) swap(shown, question.outerHTML, "outerHTML");
}

function parsed(html, selector) {
  return new DOMParser().parseFromString(html, "text/html").querySelector(selector);
}

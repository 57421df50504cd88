// Shows the page's frames (acts) in the component, as static/js/chat/log.js does on the page. They are idempotent.
import { beginningOf } from "../chat/announcer.js";
import { groupCall, showGroupState } from "../chat/call-groups.js";
import { discardReasoning, showReasoning, timeReasoning } from "../chat/reasoning.js";
import { GAP, StepText } from "../chat/step-text.js";
import { StepView } from "../chat/step-view.js";
import { showBranch } from "../chat/versions.js";

export class PageLog {
  // shell: what is around it. onChange(): a turn, a request or an end was shown.
  constructor(shell, onChange) {
    Object.assign(this, { shell, root: shell.root, log: shell.log, onChange });
    this.log.setAttribute("role", "log");
    this.clear();
    this.timer = setInterval(() => this.countDown(), 500);
  }

  stop() {
    clearInterval(this.timer);
  }

  clear() {
    this.log.replaceChildren();
    this.steps = new Map(); // "run/step" → {text, part, view}
    this.unpainted = new Set();
    this.shell.setMessages(false);
  }

  // Apply frames in order. Return false if text is missing before one.
  apply(acts) {
    const isWhole = acts.every((act) => this.act(act));
    this.shell.setMessages(Boolean(this.log.children.length || this.root.getElementById("sending").children.length));
    this.countDown();
    this.onChange();
    this.shell.keepEnd();
    return isWhole;
  }

  act(act) {
    if (act.say) this.shell.announce(act.say);
    switch (act.do) {
      case "turn": return this.showTurn(act);
      case "text": return this.takeText(act);
      case "reasoning": return this.takeReasoning(act);
      case "forget": return this.discardText(act);
      case "call": return this.showCall(act);
      case "change": return this.changeCall(act);
      case "question": return this.showQuestion(act);
      case "approval": return this.showApproval(act);
      case "status": return this.showStatus(act);
      case "work": return this.showWork(act);
      case "workstream": return this.showWorkstream(act);
      case "answer": return this.showAnswer(act);
      case "older": return this.showOlder(act);
      case "branch": return this.showBranch(act);
      case "rating": return this.showRating(act);
    }
    return true; // of a newer server
  }

  byId(id) {
    return this.root.getElementById(id);
  }

  swap(id, html) {
    const shown = this.byId(id);
    if (!shown) return null;
    const hadFocus = shown.contains(this.root.activeElement);
    shown.replaceWith(this.fragment(html));
    const fresh = this.byId(id);
    if (hadFocus) fresh?.closest("details")?.querySelector("summary")?.focus({ preventScroll: true });
    return fresh;
  }

  // Return the nodes of HTML of the server, made fit for a page of another site.
  fragment(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const { content } = template;
    for (const picture of content.querySelectorAll("img")) picture.remove(); // the browser would ask without the token
    for (const link of content.querySelectorAll("a[href]")) {
      if (/^(https?:|mailto:)/i.test(link.getAttribute("href"))) Object.assign(link, { target: "_blank", rel: "noopener noreferrer nofollow" });
    }
    return content;
  }

  // Older turns take the place of the button that asks for them. What the reader sees stays where it is.
  showOlder({ html }) {
    const view = this.shell.byId("scroll");
    const fromEnd = view.scrollHeight - view.scrollTop;
    this.byId("older")?.replaceWith(this.fragment(html));
    view.scrollTop = view.scrollHeight - fromEnd;
    return true;
  }

  // Another branch: its turns replace those shown. A focus that goes with them moves to the message box.
  showBranch({ place, html, say }) {
    const hadFocus = this.log.contains(this.root.activeElement);
    this.steps.clear();
    showBranch(this.log, place, () => this.log.replaceChildren(this.fragment(html)), (pixels) => this.shell.shift(pixels));
    const group = this.root.activeElement?.closest(".versions");
    if (group && !say) this.shell.announce(group.getAttribute("aria-label"));
    if (hadFocus && !this.root.activeElement) this.shell.box.focus();
    return true;
  }

  // Show the reader's rating of an answer. The focus stays on the button, or goes to the field for a comment.
  showRating({ run, html }) {
    const isInUse = this.byId(`feedback-${run}`)?.contains(this.root.activeElement);
    const fresh = this.swap(`feedback-${run}`, html);
    if (isInUse) (fresh.querySelector("[name=comment]") ?? fresh.querySelector("[aria-pressed=true]") ?? fresh.querySelector("button")).focus();
    return true;
  }

  showTurn({ run, place, html }) {
    const sending = this.root.getElementById("sending");
    const parts = this.byId(`turn-${run}`) && this.openParts(run);
    if (parts && !parts.closest(".answer").querySelector("[data-queued]")) this.showJoined(parts, sending);
    sending.replaceChildren();
    if (this.byId(`turn-${run}`)) return true;
    const next = [...this.log.querySelectorAll(".turn")].find((other) => Number(other.dataset.place) > Number(place));
    this.log.insertBefore(this.fragment(html), next ?? null);
    this.shell.keepEnd(true);
    return true;
  }

  // Show in the running answer a message that has joined it.
  showJoined(parts, sending) {
    for (const bubble of sending.querySelectorAll("[data-joins] .bubble")) {
      const joined = this.byId("joined-pattern").content.firstElementChild.cloneNode(true);
      joined.append(bubble.textContent);
      parts.append(joined);
    }
  }

  openParts(run) {
    const parts = this.byId(`parts-${run}`);
    return parts && ownerOf(parts).hasAttribute("data-open") ? parts : null;
  }

  takeText(act) {
    const parts = this.openParts(act.run);
    const step = parts && this.step(parts, act.run, act.step);
    if (!step) return true; // the run has ended, or its stored text is shown
    const fresh = step.text.take(act);
    if (fresh === GAP) return false;
    step.view.add(fresh);
    ownerOf(parts).toggleAttribute("data-writing", true);
    if (!this.unpainted.size) requestAnimationFrame(() => this.paint());
    this.unpainted.add(step);
    return true;
  }

  step(parts, run, number) {
    const key = `${run}/${number}`;
    const known = this.steps.get(key);
    if (known?.part.isConnected) return known;
    if (parts.querySelector(`.text[data-step="${number}"][data-closed]`)) return null;
    const part = this.byId("text-pattern").content.firstElementChild.cloneNode(true);
    part.dataset.step = number;
    const isLater = ({ dataset, classList }) => dataset.step - number >= (classList.contains("reasoning") ? 1 : 0);
    parts.insertBefore(part, [...parts.children].find(isLater) ?? null);
    const step = { text: new StepText(), part, view: new StepView(part) };
    this.steps.set(key, step);
    return step;
  }

  paint() {
    for (const { text, view } of this.unpainted) view.paint(text);
    this.unpainted.clear();
    this.shell.keepEnd();
  }

  takeReasoning(act) {
    const parts = this.openParts(act.run);
    if (!parts) return true;
    showReasoning(parts, act);
    ownerOf(parts).toggleAttribute("data-writing", true);
    return true;
  }

  discardText({ run, step: number, reasoning }) {
    if (reasoning) discardReasoning(run, number, this.root);
    const step = this.steps.get(`${run}/${number}`);
    if (step && !step.part.hasAttribute("data-closed")) {
      step.part.remove();
      this.steps.delete(`${run}/${number}`);
    }
    return true;
  }

  insertByStep(parts, step, html) {
    const later = [...parts.children].find((other) => Number(other.dataset.step) > step);
    parts.insertBefore(this.fragment(html), later ?? null);
  }

  showCall({ run, step, call, html }) {
    const parts = this.openParts(run);
    if (!parts || this.byId(`call-${call}`)) return true;
    this.paint();
    parts.querySelector(`.text[data-step="${step}"]`)?.toggleAttribute("data-closed", true);
    ownerOf(parts).toggleAttribute("data-writing", false);
    this.insertByStep(parts, step, html);
    const card = this.byId(`call-${call}`);
    groupCall(card);
    if (card.matches(".is-question")) reveal(card);
    return true;
  }

  changeCall({ call, state, result }) {
    const card = this.byId(`call-${call}`);
    if (!card?.closest(".answer[data-open]") || card.hasAttribute("data-over")) return true;
    this.swap(`call-state-${call}`, state);
    if (!result) return true;
    this.swap(`call-result-${call}`, result);
    if (card.matches(".is-quiet:not(:has(.approval, [data-bad]))")) card.remove();
    else {
      card.toggleAttribute("data-over", true);
      showGroupState(card);
      if (this.byId(`call-state-${call}`).hasAttribute("data-bad")) card.open = true;
    }
    return true;
  }

  showQuestion({ call, html }) {
    if (this.swap(`input-${call}`, html)) reveal(this.byId(`input-${call}`));
    return true;
  }

  showApproval({ call, html, state, pending }) {
    const shown = this.byId(`approval-${call}`);
    if (!shown || (pending && shown.hasAttribute("data-pending"))) return true;
    const fresh = this.swap(`approval-${call}`, html);
    const card = fresh?.closest(".call");
    if (pending && fresh) reveal(fresh);
    if (card?.closest(".answer[data-open]") && !card.hasAttribute("data-over")) this.swap(`call-state-${call}`, state);
    return true;
  }

  showStatus({ run, html }) {
    if (this.swap(`status-${run}`, html)) this.byId(`answer-${run}`).toggleAttribute("data-writing", false);
    return true;
  }

  showWork({ run, id, html }) {
    const shown = this.byId(id);
    if (!shown || !this.openParts(run)) return true;
    const wasFolded = shown.matches("details:not([open])");
    const fresh = this.swap(id, html);
    if (wasFolded) fresh.open = false;
    return true;
  }

  showWorkstream({ run, id, call, step, html, head, foot, body }) {
    const card = this.byId(`workstream-${id}`);
    const parts = this.openParts(run);
    if (!card && parts) {
      const launching = this.byId(`call-${call}`);
      if (launching) launching.after(this.fragment(html));
      else this.insertByStep(parts, call ? step : Infinity, html);
    } else if (card?.hasAttribute("data-open")) {
      this.swap(`workstream-head-${id}`, head);
      if (!body) this.swap(`workstream-foot-${id}`, foot);
      else {
        card.toggleAttribute("data-open", false);
        card.querySelector(".workstream-body").replaceWith(this.fragment(body));
        this.forgetSteps(id);
      }
    }
    return true;
  }

  showAnswer({ run, html, say }) {
    const answer = this.byId(`answer-${run}`);
    if (!answer?.hasAttribute("data-open")) return true;
    const opened = [...answer.querySelectorAll("details[open][id]")].map((details) => details.id);
    this.swap(`answer-${run}`, html);
    for (const id of opened) this.byId(id)?.toggleAttribute("open", true);
    if (!say) this.shell.announce(beginningOf(this.byId(`answer-${run}`)));
    this.forgetSteps(run);
    return true;
  }

  forgetSteps(run) {
    for (const key of [...this.steps.keys()]) if (key.startsWith(`${run}/`)) this.steps.delete(key);
  }

  countDown() {
    timeReasoning(this.log);
    for (const place of this.log.querySelectorAll(".status[data-until], .approval[data-until], .workstream-deadline[data-until]")) {
      const seconds = Math.max(0, Math.ceil((Date.parse(place.dataset.until) - Date.now()) / 1000));
      const left = place.querySelector(".countdown");
      const text = left ? ` in ${duration(seconds)}` : `${duration(seconds)} left`;
      if ((left ?? place).textContent !== text) (left ?? place).textContent = text;
    }
  }
}

function ownerOf(parts) {
  return parts.closest(".workstream, .answer");
}

function reveal(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

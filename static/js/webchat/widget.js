// The page of the chat that sites show in a frame.

import { setUpCopying } from "../chat/copying.js";
import { TEXTS } from "../component/texts.js";
import { Attachments } from "./attachments.js";
import { Conversation, newId } from "./conversation.js";
import { Log } from "./log.js";
import { ownStore, siteStore } from "./store.js";

const LONGEST_TEXT = 8000;
const ENDED = "<p>The last conversation has ended. This is a new one.</p>";
const page = document.body;
const given = new URLSearchParams(location.hash.slice(1));
const user = { userId: given.get("userId") || "", userHash: given.get("userHash") || "", name: given.get("name") || "" };

const form = document.getElementById("composer");
const box = document.getElementById("text");
const stop = document.getElementById("stop");
const problem = document.getElementById("problem");
const announcer = document.getElementById("announcer");
const list = document.getElementById("log");

const attachments = new Attachments({
  input: document.getElementById("files"),
  chosen: document.getElementById("chosen"),
  names: document.getElementById("names"),
  remove: document.getElementById("remove"),
  onProblem: showProblem,
});

const log = new Log({
  list,
  texts: TEXTS,
  onGap: () => conversation.startAgain(),
  empty: document.getElementById("empty"),
  announcer,
  onRunning: (isRunning) => {
    if (!isRunning && document.activeElement === stop) list.focus(); // else it would be lost
    stop.hidden = !isRunning;
  },
  onPress: (actionId) => attempt(async () => {
    const { notice } = await conversation.press(actionId);
    if (notice) log.addNotice(notice.html);
  }),
});

const { account } = page.dataset;
const isFramed = window.parent !== window;
const store = isFramed ? siteStore(given.get("saved")) : ownStore(account);
const conversation = new Conversation(account, user, store, {
  onEvent: (name, data) => log.see(name, data),
  onRefused: (error) => showProblem(error.message),
  onConnection: (isConnected) => showConnection(isConnected),
  onReset: (isExpired) => {
    showConnection(true);
    log.clear();
    if (isExpired) log.addNotice(ENDED);
  },
});

// What prevents the visitor's last action, or else that the connection is lost.
function showProblem(text) {
  problem.dataset.action = text;
  showProblems();
}

function showConnection(isConnected) {
  if (isConnected) problem.dataset.action = "";
  problem.dataset.connection = isConnected ? "" : "The connection was lost. It is being restored…";
  showProblems();
}

function showProblems() {
  const text = problem.dataset.action || problem.dataset.connection || "";
  if (problem.textContent !== text) problem.textContent = text; // each change is announced
  problem.hidden = !text;
}

// Carry out what a person asked for. Return whether it succeeded; else say why.
async function attempt(action, onRefused) {
  try {
    await action();
    showProblem("");
    return true;
  } catch (error) {
    onRefused?.(error);
    showProblem(error.status === 413 ? `A file is too large. ${attachments.advice}` : error.message);
    return false;
  }
}

const underWay = new Set(); // ids of messages

function send(id, text, files) {
  underWay.add(id);
  const isCommand = text.startsWith("/");
  const names = files.map((file) => file.name);
  if (!isCommand) log.addOwn(id, text, names);
  if (!isCommand && !files.length) conversation.keepUnsent(id, text); // the page may be left before the answer
  return attempt(async () => {
    const { notice } = await conversation.send(id, text, files);
    conversation.dropUnsent(id);
    if (notice) log.addNotice(notice.html);
  }, (error) => {
    if (error.isFinal) conversation.dropUnsent(id);
    const canTakeBack = !box.value && !attachments.files.length;
    if (canTakeBack && (isCommand || error.isFinal)) return takeBack(id, text, files);
    if (!isCommand) log.failOwn(id, text, names, () => send(id, text, files));
  }).finally(() => underWay.delete(id));
}

// Send again what was not sent, now or by an earlier page. The ids make sure that each is stored once.
async function sendUnsent() {
  for (const { id, text } of conversation.unsent) if (!underWay.has(id) && !(await send(id, text, []))) break;
}

// Put a message that would be refused again back where it can be changed.
function takeBack(id, text, files) {
  log.removeOwn(id);
  box.value = text;
  attachments.set(files);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = box.value.trim();
  if (!text && !attachments.files.length) return box.focus();
  const length = Array.from(text).length;
  if (length > LONGEST_TEXT) {
    showProblem(`A message can have at most ${LONGEST_TEXT.toLocaleString("en")} characters. This one has ${length.toLocaleString("en")}.`);
    return box.focus();
  }
  box.value = "";
  send(newId(), text, attachments.take());
  box.focus();
});

box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

setUpCopying((text) => { announcer.textContent = text });
stop.addEventListener("click", () => attempt(() => conversation.stop()));
const ask = document.getElementById("ask");
document.getElementById("restart").addEventListener("click", () => {
  if (!log.items.size) return box.focus();
  ask.showModal();
  ask.querySelector("[value=no]").focus();
});
ask.addEventListener("close", async () => {
  if (ask.returnValue !== "yes" || (await attempt(() => conversation.restart()))) box.focus();
  ask.returnValue = "";
});

const close = document.getElementById("close");
close.hidden = !isFramed;
close.addEventListener("click", () => window.parent.postMessage({ komand: "close" }, "*"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing && !close.hidden && !ask.open) close.click();
});
// The site's button gives the focus to the frame.
addEventListener("focus", () => document.activeElement === page && box.focus());

// Until now, nothing would have sent what a visitor types.
document.getElementById("fields").disabled = false;
if (document.hasFocus() && document.activeElement === page) box.focus();
if (isFramed) window.parent.postMessage({ komand: "ready" }, "*");

addEventListener("online", () => sendUnsent());
attempt(() => conversation.resume()).then(sendUnsent).finally(() => { page.dataset.ready = "" });

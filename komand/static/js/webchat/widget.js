// The page of the chat that sites show in a frame.

import { Conversation, newId } from "./conversation.js";
import { Log } from "./log.js";
import { ownStore, siteStore } from "./store.js";

const MOST_FILES = 10;
const page = document.body;
const given = new URLSearchParams(location.hash.slice(1));
const user = { userId: given.get("userId") || "", userHash: given.get("userHash") || "", name: given.get("name") || "" };

const form = document.getElementById("composer");
const box = document.getElementById("text");
const files = document.getElementById("files");
const chosen = document.getElementById("chosen");
const stop = document.getElementById("stop");
const problem = document.getElementById("problem");

const log = new Log({
  list: document.getElementById("log"),
  empty: document.getElementById("empty"),
  announcer: document.getElementById("announcer"),
  onRunning: (isRunning) => { stop.hidden = !isRunning },
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
  onReset: () => log.clear(),
  onConnection: (isConnected) => showProblem(isConnected ? "" : "The connection was lost. It is being restored…"),
});

function showProblem(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

// Carry out what a person asked for. Return whether it succeeded; else say why.
async function attempt(action) {
  try {
    await action();
    showProblem("");
    return true;
  } catch (error) {
    showProblem(error.message);
    return false;
  }
}

async function send(id, text, attached) {
  const isCommand = text.startsWith("/");
  if (!isCommand) log.addOwn(id, text, attached.map((file) => file.name));
  const isSent = await attempt(async () => {
    const { notice } = await conversation.send(id, text, attached);
    if (notice && text.startsWith("/new")) log.clear();
    if (notice) log.addNotice(notice.html);
  });
  if (!isSent) log.failOwn(id, () => send(id, text, attached));
}

function showChosen() {
  const names = Array.from(files.files, (file) => file.name);
  chosen.textContent = names.length ? `Attached: ${names.join(", ")}` : "";
  chosen.hidden = !names.length;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = box.value.trim();
  const attached = Array.from(files.files).slice(0, MOST_FILES);
  if (!text && !attached.length) return;
  box.value = "";
  files.value = "";
  showChosen();
  send(newId(), text, attached);
  box.focus();
});

box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

files.addEventListener("change", showChosen);
stop.addEventListener("click", () => attempt(() => conversation.stop()));
document.getElementById("restart").addEventListener("click", () => attempt(() => conversation.restart()));

const close = document.getElementById("close");
close.hidden = !isFramed;
close.addEventListener("click", () => window.parent.postMessage({ komand: "close" }, "*"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !close.hidden) close.click();
});
// The site's button gives the focus to the frame.
addEventListener("focus", () => document.activeElement === page && box.focus());

// Until now, nothing would have sent what a visitor types.
document.getElementById("fields").disabled = false;
if (document.hasFocus() && document.activeElement === page) box.focus();

attempt(() => conversation.resume()).finally(() => { page.dataset.ready = "" });

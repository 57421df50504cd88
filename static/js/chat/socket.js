// Follows a session over a WebSocket: comes back by itself after an interruption, from where it was.
import { announce } from "./log.js";

const FIRST_DELAY = 1000;
const LONGEST_DELAY = 30_000;
const JITTER = 0.1;
const TRIES = 10;
const SILENCE = 75_000; // the server gives a sign of life each 30 s
const LOGIN = 4401;
const FOR_GOOD = 4400; // and above: do not come back
const MOST_GAPS = 3;
const STANDS = 5000; // a connection that lasts so long counts as a good one

export function follow(session, cursor, log) {
  new Follower(session, cursor, log).connect();
}

// How long to wait before the n-th try (from 0): doubling, with some jitter so that not all pages come at once.
export function delayBefore(attempt, random = Math.random()) {
  return Math.min(FIRST_DELAY * 2 ** attempt, LONGEST_DELAY) * (1 + JITTER * (2 * random - 1));
}

class Follower {
  #address;
  #cursor;
  #log;
  #socket = null;
  #attempt = 0;
  #gaps = 0;
  #retryAt = 0;
  #isOver = false;
  #timer = 0;
  #silence = 0;
  #standing = 0;

  constructor(session, cursor, log) {
    this.#address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/chat/${session}`;
    this.#cursor = cursor;
    this.#log = log;
    document.getElementById("reconnect").addEventListener("click", () => this.#again());
    addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#wake());
    setInterval(() => this.#tellWait(), 500);
  }

  connect() {
    clearTimeout(this.#timer);
    this.#retryAt = 0;
    const socket = (this.#socket = new WebSocket(`${this.#address}?cursor=${encodeURIComponent(this.#cursor)}`));
    socket.addEventListener("message", (event) => socket === this.#socket && this.#take(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => socket === this.#socket && this.#lost(event.code));
    this.#expectLife();
  }

  #take({ cursor, acts }) {
    banner("");
    this.#standing ||= setTimeout(() => (this.#attempt = 0), STANDS);
    this.#expectLife();
    if (!acts) return;
    // Text that stays missing comes with the stored answer; what else has happened must not wait for it.
    const pastGaps = this.#gaps >= MOST_GAPS;
    const whole = this.#log.apply(acts, pastGaps);
    if (!whole && !pastGaps) {
      this.#missing();
      return;
    }
    if (whole) this.#gaps = 0;
    this.#cursor = cursor;
  }

  // Text is missing: ask again from the last fact.
  #missing() {
    this.#gaps += 1;
    this.#drop();
    this.#timer = setTimeout(() => this.connect(), FIRST_DELAY / 4);
  }

  #lost(code) {
    this.#drop();
    this.#isOver = code >= FOR_GOOD && code < 4500;
    if (code === LOGIN) {
      location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
    } else if (this.#isOver) {
      banner("This chat is no longer here.");
    } else if (this.#attempt >= TRIES) {
      banner("The connection is lost.", true);
      announce("The connection is lost.");
    } else {
      const wait = delayBefore(this.#attempt++);
      this.#retryAt = Date.now() + wait;
      this.#timer = setTimeout(() => this.connect(), wait);
      this.#tellWait();
    }
  }

  #again() {
    this.#attempt = 0;
    banner("Connecting…");
    this.connect();
  }

  // The network or the tab is back: no need to wait for the next try, and one more after the last.
  #wake() {
    if (!this.#socket && !this.#isOver) this.connect();
  }

  #expectLife() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(0), SILENCE);
  }

  #drop() {
    for (const timer of [this.#silence, this.#timer, this.#standing]) clearTimeout(timer);
    this.#standing = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #tellWait() {
    if (!this.#retryAt) return;
    const seconds = Math.ceil((this.#retryAt - Date.now()) / 1000);
    banner(seconds > 0 ? `The connection is interrupted. Trying again in ${seconds} s…` : "Connecting…");
  }
}

function banner(words, offersButton = false) {
  const element = document.getElementById("banner");
  const status = element.querySelector("[role=status]");
  if (status.textContent !== words) status.textContent = words;
  element.hidden = !words;
  document.getElementById("reconnect").hidden = !offersButton;
}

// Follows a session over a WebSocket. Reconnects automatically, and resumes from its cursor.
import { announce } from "./announcer.js";

const FIRST_DELAY = 1000;
const HAND_OVER = 200; // within it, all pages of a process that ends connect to another one
const LONGEST_DELAY = 30_000;
const JITTER = 0.1;
const TRIES = 10;
const HEARTBEAT_TIMEOUT = 75_000; // the server sends a heartbeat every 30 s
const RESTARTING = 4000; // another process of the server takes the connection
const LOGIN = 4401;
const FOR_GOOD = 4400; // and above: do not reconnect
const MOST_GAPS = 3;
const STABLE_AFTER = 5000; // a connection that lasts this long resets the back-off

export function follow(session, cursor, log) {
  new Follower(session, cursor, log).connect();
}

// The back-off before a try (from 0): exponential, with jitter so that pages do not reconnect all at once.
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
  #heartbeatTimer = 0;
  #stableTimer = 0;

  constructor(session, cursor, log) {
    this.#address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/chat/${session}`;
    this.#cursor = cursor;
    this.#log = log;
    document.getElementById("reconnect").addEventListener("click", () => this.#reconnect());
    addEventListener("online", () => this.#reconnectNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#reconnectNow());
    document.addEventListener("submit", (event) => event.target.getAttribute("action") === "/logout" && this.#end());
    setInterval(() => this.#showWait(), 500);
  }

  connect() {
    clearTimeout(this.#timer);
    this.#retryAt = 0;
    const socket = (this.#socket = new WebSocket(`${this.#address}?cursor=${encodeURIComponent(this.#cursor)}`));
    socket.addEventListener("message", (event) => socket === this.#socket && this.#take(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => socket === this.#socket && this.#lost(event.code));
    this.#expectHeartbeat();
  }

  #take({ cursor, acts }) {
    banner("");
    this.#stableTimer ||= setTimeout(() => (this.#attempt = 0), STABLE_AFTER);
    this.#expectHeartbeat();
    if (!acts) return;
    // Text that stays missing comes with the stored answer; other updates must not wait for it.
    const pastGaps = this.#gaps >= MOST_GAPS;
    const whole = this.#log.apply(acts, pastGaps);
    if (!whole && !pastGaps) {
      this.#handleGap();
      return;
    }
    if (whole) this.#gaps = 0;
    this.#cursor = cursor;
  }

  // Text is missing: reconnect, and resume from the last stored event.
  #handleGap() {
    this.#gaps += 1;
    this.#drop();
    this.#timer = setTimeout(() => this.connect(), FIRST_DELAY / 4);
  }

  // The server ends the connection of a user who logs out, which must not send the page elsewhere than the logout does.
  #end() {
    this.#drop();
    this.#isOver = true;
  }

  #lost(code) {
    this.#drop();
    this.#isOver = code >= FOR_GOOD && code < 4500;
    if (code === LOGIN) {
      location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
    } else if (this.#isOver) {
      banner("This chat is no longer available.");
    } else if (this.#attempt >= TRIES) {
      banner("The connection is lost.", true);
      announce("The connection is lost.");
    } else {
      const isHandedOver = code === RESTARTING && this.#attempt === 0;
      const wait = isHandedOver ? Math.random() * HAND_OVER : delayBefore(this.#attempt);
      this.#attempt += 1;
      this.#retryAt = Date.now() + wait;
      this.#timer = setTimeout(() => this.connect(), wait);
      this.#showWait();
    }
  }

  #reconnect() {
    this.#attempt = 0;
    banner("Connecting…");
    this.connect();
  }

  // The network or the tab is back: reconnect at once, also after the last try.
  #reconnectNow() {
    if (!this.#socket && !this.#isOver) this.connect();
  }

  #expectHeartbeat() {
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = setTimeout(() => this.#lost(0), HEARTBEAT_TIMEOUT);
  }

  #drop() {
    for (const timer of [this.#heartbeatTimer, this.#timer, this.#stableTimer]) clearTimeout(timer);
    this.#stableTimer = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #showWait() {
    if (!this.#retryAt) return;
    const seconds = Math.ceil((this.#retryAt - Date.now()) / 1000);
    banner(seconds > 0 ? `The connection is interrupted. Trying again in ${seconds} s…` : "Connecting…");
  }
}

function banner(text, offersButton = false) {
  const element = document.getElementById("banner");
  const status = element.querySelector("[role=status]");
  if (status.textContent !== text) status.textContent = text;
  element.hidden = !text;
  document.getElementById("reconnect").hidden = !offersButton;
}

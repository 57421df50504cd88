// A client of AG-UI 1.0 for one agent: requests of runs, and their events. It sends the token of the site's user, no cookies.

// In milliseconds.
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;
const LONGEST_SILENCE = 60_000; // the server sends a comment every 15 s
const LAST = ["RUN_FINISHED", "RUN_ERROR"];

export class Refused extends Error {
  // status: of HTTP; 0 for a refusal in the stream.
  constructor(status, { message, code } = {}, retryAfter = 0) {
    super(message || `The server refused this (${status}).`);
    Object.assign(this, { status, code: code || "", retryAfter });
  }
}

export class AgUi {
  // getToken({ isExpired }): returns a token of the site's user; onConnection(isConnected).
  constructor(base, agent, { getToken, onConnection }) {
    Object.assign(this, { base, getToken, onConnection });
    this.address = `${base}/ag-ui/agents/${encodeURIComponent(agent)}`;
    this.token = "";
  }

  // Run until the end or an interrupt, over connections that break. Return the last event. Raises Refused.
  // onEvent(event): is called with each event, in order.
  async run(input, onEvent, signal) {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      const began = Date.now();
      try {
        const last = await this.stream(input, onEvent, signal);
        if (last) return last;
      } catch (error) {
        const isFinal = error instanceof Refused && error.status < 500 && error.status !== 429;
        if (isFinal || signal.aborted) throw error;
        if (!this.isReached) await this.explain();
        pause = Math.max(pause, 1000 * (error.retryAfter ?? 0));
      }
      if (Date.now() - began > LONGEST_PAUSE) pause = FIRST_PAUSE;
      this.onConnection(false);
      await wait(pause * (0.5 + Math.random() / 2), signal);
    }
  }

  // Browsers do not say why a request failed. If the server can be reached, it does not let pages of this origin in.
  async explain() {
    try {
      await fetch(`${this.base}/health/live`, { mode: "no-cors", credentials: "omit", cache: "no-store" });
    } catch {
      return;
    }
    console.error(`Komand: add ${location.origin} to KOMAND_CORS_ORIGINS of ${this.base}`);
    throw new Refused(0, { code: "origin_refused", message: "This page may not show the chat." });
  }

  // Send a request as the site's user. A token that is refused is renewed once.
  async request(address, body, signal, method = "POST") {
    for (const isExpired of [false, true]) {
      if (!this.token || isExpired) this.token = await this.getToken({ isExpired });
      const response = await fetch(address, {
        method, signal, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
        headers: { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      this.isReached = true;
      if (response.ok) return response;
      if (response.status === 401 && !isExpired) continue;
      if (response.status === 401) this.token = "";
      const problem = await response.json().catch(() => ({}));
      throw new Refused(response.status, problem.error ?? problem, Number(response.headers.get("Retry-After")) || 0);
    }
  }

  async stream(input, onEvent, signal) {
    const connection = new AbortController();
    const leave = () => connection.abort();
    signal.addEventListener("abort", leave, { once: true });
    let timer = setTimeout(leave, LONGEST_SILENCE);
    try {
      const response = await this.request(this.address, input, connection.signal);
      this.onConnection(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) return null;
        clearTimeout(timer);
        timer = setTimeout(leave, LONGEST_SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          if (!block.startsWith("data: ")) continue; // a comment
          const event = JSON.parse(block.slice(6));
          onEvent(event);
          if (LAST.includes(event.type)) return event;
        }
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      leave();
    }
  }

  cancel(run) {
    return this.command(`api/runs/${run}/cancel`);
  }

  // Send a command to another interface of the server. Return what it answers.
  async command(path, body = {}, method = "POST") {
    const response = await this.request(`${this.base}/${path}`, body, AbortSignal.timeout(LONGEST_PAUSE), method);
    return response.status === 204 ? null : response.json();
  }

  // Return a file of the conversation.
  async load(path) {
    return (await this.request(this.base + path, null, AbortSignal.timeout(10 * LONGEST_PAUSE), "GET")).blob();
  }
}

function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}

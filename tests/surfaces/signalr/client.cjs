// Scenarios of the real @microsoft/signalr client. Prints the received calls as one line of JSON.
const signalr = require("@microsoft/signalr");
const request = JSON.parse(process.argv[2]);
const transports = {
  websockets: signalr.HttpTransportType.WebSockets,
  sse: signalr.HttpTransportType.ServerSentEvents,
  polling: signalr.HttpTransportType.LongPolling,
};
const names = [
  "AgentTyping", "ReceiveToken", "ReceiveMessage", "ToolStarted", "ToolCompleted", "ApprovalRequested",
  "ApprovalDecided", "InputRequested", "RunFailed",
];

const urls = [];
const recording = (Base) => class extends Base {
  constructor(url, ...others) { super(url, ...others); urls.push(String(url)); }
};
const [EventSource, WebSocket] = [recording(require("eventsource")), recording(require("ws"))];

function connect(seen) {
  const connection = new signalr.HubConnectionBuilder()
    .withUrl(request.positions ? `${request.url}?positions=true` : request.url, {
      transport: transports[request.transport || "websockets"],
      accessTokenFactory: () => request.token,
      skipNegotiation: Boolean(request.skipNegotiation),
      EventSource,
      WebSocket,
    })
    .configureLogging(signalr.LogLevel.None)
    .build();
  for (const name of names) connection.on(name, (...args) => { seen.push([name, args]); });
  return connection;
}

function until(seen, found, seconds = 40) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + seconds * 1000;
    const timer = setInterval(() => {
      if (found()) { clearInterval(timer); resolve(); }
      else if (Date.now() > deadline) { clearInterval(timer); reject(new Error("nothing came: " + JSON.stringify(seen))); }
    }, 10);
  });
}

const count = (seen, name) => seen.filter(([target]) => target === name).length;
const text = (seen) => seen.filter(([name]) => name === "ReceiveToken").map(([, args]) => args[1] || "").join("");
const isQuiet = (seen) => seen.some(([name, args]) => name === "AgentTyping" && args[1] === false);

const scenarios = {
  async ask() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    const sent = await connection.invoke("SendMessage", request.agent || "default", request.text);
    await until(seen, () => isQuiet(seen));
    await connection.stop();
    return { sent, seen, urls };
  },
  // Prints a line when the answer has reached `upTo`, so that the test can act meanwhile.
  async meanwhile() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    const sent = await connection.invoke("SendMessage", "default", request.text);
    await until(seen, () => text(seen).includes(request.upTo));
    console.log("now");
    await until(seen, () => isQuiet(seen), 80);
    await connection.stop();
    return { sent, seen };
  },
  // Another client sends a message in the session.
  async watch() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    await connection.invoke("Resume", request.session);
    console.log("now");
    await until(seen, () => isQuiet(seen));
    await connection.stop();
    return { seen };
  },
  async twice() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    const first = await connection.invoke("SendMessage", "default", request.text);
    await until(seen, () => text(seen).includes(request.upTo));
    const second = await connection.invoke("SendMessage", "default", request.then);
    console.log("now");
    await until(seen, () => count(seen, "ReceiveMessage") === 2);
    await connection.stop();
    return { first, second, seen };
  },
  async approve() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    await connection.invoke("sendmessage", "default", request.text);
    await until(seen, () => count(seen, "ApprovalRequested"));
    const asked = seen.find(([name]) => name === "ApprovalRequested")[1][1];
    const decided = await connection.invoke("DecideApproval", asked.approvalId, request.decision);
    await until(seen, () => isQuiet(seen));
    await connection.stop();
    return { decided, seen };
  },
  async resume() {
    const first = [];
    const one = connect(first);
    await one.start();
    const sent = await one.invoke("SendMessage", "default", request.text);
    await until(first, () => count(first, "ReceiveToken") >= 1);
    await one.stop();
    const last = first.filter(([name]) => name === "ReceiveToken").pop()[1][3].eventId;
    const then = [];
    const two = connect(then);
    await two.start();
    await two.invoke("Resume", sent.sessionId, last);
    console.log("now");
    await until(then, () => isQuiet(then));
    await two.stop();
    return { first, then };
  },
  async stream() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    const items = [];
    await new Promise((resolve, reject) => {
      connection.stream("StreamMessage", "default", request.text).subscribe({
        next: (item) => { items.push(item); }, complete: resolve, error: reject,
      });
    });
    await connection.stop();
    return { items };
  },
  async cancel() {
    const seen = [];
    const connection = connect(seen);
    await connection.start();
    const sent = await connection.invoke("SendMessage", "default", request.text);
    await until(seen, () => count(seen, "ReceiveToken") >= 2);
    const stopped = await connection.invoke("Cancel", sent.sessionId, sent.messageId);
    await until(seen, () => isQuiet(seen));
    await connection.stop();
    return { stopped, seen };
  },
  async refused() {
    const seen = [];
    const connection = connect(seen);
    const errors = [];
    try { await connection.start(); } catch (error) { return { start: String(error) }; }
    for (const [method, ...args] of request.calls) {
      try { await connection.invoke(method, ...args); errors.push(null); } catch (error) { errors.push(String(error)); }
    }
    await connection.stop();
    return { errors };
  },
};

scenarios[request.scenario]().then(
  (result) => { console.log(JSON.stringify(result)); process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);

// Scenarios of the real @vertesia/client against one installation. The request is JSON in the first argument, the
// answer JSON on the last line. The client's own schemas check all messages.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const modules = process.env.NODE_PATH;
const load = (name) => {
  const found = createRequire(path.join(modules, "x.js")).resolve(name);
  return import(pathToFileURL(found).href);
};
const { VertesiaClient } = await load("@vertesia/client");
const common = await load("@vertesia/common");
const schemas = await load("@vertesia/common/api-schemas");
const T = common.AgentMessageType;
// Older Nodes have no WebSocket of their own.
if (!globalThis.WebSocket) {
  const ws = await load("ws");
  globalThis.WebSocket = ws.WebSocket ?? ws.default?.WebSocket ?? ws.default ?? ws;
}

const request = JSON.parse(process.argv[2]);
const base = request.url;
for (const level of ["log", "warn", "debug"]) console[level] = () => {};
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");

// A fault of the client: an aborted stream that has reconnected before never ends. It must not hang a test.
setTimeout(() => { process.stderr.write("the scenario took too long\n"); process.exit(3); }, request.patience ?? 85000).unref();

const problems = [];
function check(schema, value, what) {
  const found = schemas[schema].safeParse(value);
  if (!found.success) problems.push(`${what}: ${JSON.stringify(found.error.issues).slice(0, 600)}`);
  return value;
}

function connect(options = {}) {
  return new VertesiaClient({ serverUrl: base, storeUrl: base, tokenServerUrl: base, apikey: request.token, ...options });
}

const client = connect();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function start(text, more = {}) {
  const payload = { interaction: request.interaction ?? "sys:generic_question", data: { task: text }, interactive: true, ...more };
  check("CreateAgentRunPayloadSchema", payload, "our own request");
  const run = await client.agents.start(payload);
  return check("AgentRunSchema", run, "start");
}

// Follow a run until `enough` says so; returns the messages in the long form, as applications receive them.
async function follow(id, enough, { since, options, onMessage } = {}) {
  const seen = [];
  await client.agents.streamMessages(
    id,
    (message, exit) => {
      seen.push(message);
      check("AgentMessageDetailsSchema", message.details ?? {}, `details of type ${message.type}`);
      onMessage?.(message, exit);
      if (enough?.(message, seen)) exit(null);
    },
    since,
    AbortSignal.timeout(80000),
    options,
  );
  return seen;
}

// `here` resolves with the first live text that `onMessage` receives.
function firstText() {
  let come;
  const here = new Promise((done) => (come = done));
  return { here, onMessage: (message) => { if (message.type === T.STREAMING_CHUNK) come(); } };
}

const isRest = (message) => [T.COMPLETE, T.IDLE, T.REQUEST_INPUT, T.TERMINATED].includes(message.type);
// The turn of this user message has its answer and has ended.
const restsAfter = (ack) => {
  let asked = ack === undefined;
  return (message) => {
    asked ||= message.type === T.QUESTION && message.details?.ack === ack;
    return asked && isRest(message);
  };
};
const brief = (message) => ({ type: message.type, text: message.message, details: message.details, ts: message.timestamp });
const say = (id, message, ack, metadata) =>
  client.agents.sendSignal(id, "UserInput", { message, client_message_id: ack, ...(metadata ? { metadata } : {}) });

const scenarios = {
  async talk() {
    const run = await start(request.text, request.more);
    const seen = await follow(run.id, isRest);
    const raw = await (await fetch(`${base}/api/v1/agents/${run.id}/updates`, { headers: { authorization: `Bearer ${request.token}` } })).json();
    check("AgentRunUpdatesResponseSchema", raw, "updates");
    const after = check("AgentRunSchema", await client.agents.retrieve(run.id), "retrieve");
    const internals = check("AgentRunInternalsSchema", await client.agents.getInternals(run.id), "internals");
    return { run, seen: seen.map(brief), history: raw.messages, after, internals };
  },

  async twoTurns() {
    const run = await start("echo first");
    await follow(run.id, isRest);
    const signalled = check("SignalAgentResponseSchema", await say(run.id, "echo second", "m-2"), "signal");
    const again = await say(run.id, "echo second", "m-2");
    const seen = await follow(run.id, restsAfter("m-2"));
    return { signalled, again, seen: seen.map(brief) };
  },

  // The connection breaks during the answer; the client reconnects by itself and resumes.
  async reconnect() {
    const run = await start(request.text);
    let pieces = "";
    const seen = await follow(run.id, isRest, {
      onMessage: (message) => {
        if (message.type === T.STREAMING_CHUNK) pieces += message.message;
      },
    });
    return { seen: seen.map(brief), pieces };
  },

  // Prints a line when the answer has reached `upTo`, so that the test can act meanwhile.
  async meanwhile() {
    const run = await start(request.text);
    let text = "";
    let isPrinted = false;
    const seen = await follow(run.id, isRest, {
      onMessage: (message) => {
        if (message.type === T.STREAMING_CHUNK) text += message.message;
        if (message.details?.event_class === "stream_reset") text = "";
        if (isPrinted || !text.includes(request.upTo)) return;
        isPrinted = true;
        process.stdout.write("now\n");
      },
    });
    return { run, seen: seen.map(brief), text, history: (await client.agents.retrieveMessages(run.id)).map(brief) };
  },

  // The second turn cites what a tool found in the first.
  async cite() {
    const run = await start(request.text);
    const found = (await follow(run.id, isRest)).find((message) => message.details?.tool_event === "completed");
    const id = /"cite": ?"([^"]+)"/.exec(found.details.output)[1];
    await say(run.id, `[[text="So it is [${id}]."]]`, "m-2");
    return { id, seen: (await follow(run.id, restsAfter("m-2"))).map(brief) };
  },

  // Another client sends a message in the session.
  async watch() {
    const waiting = follow(request.session, isRest);
    process.stdout.write("now\n");
    return { seen: (await waiting).map(brief) };
  },

  async interrupt() {
    const run = await start(request.text);
    const text = firstText();
    const waiting = follow(run.id, restsAfter("m-2"), { onMessage: text.onMessage });
    await text.here;
    await say(run.id, "echo instead", "m-2");
    return { seen: (await waiting).map(brief) };
  },

  async stop() {
    const run = await start(request.text);
    const text = firstText();
    const waiting = follow(run.id, isRest, { onMessage: text.onMessage });
    await text.here;
    const stopped = await client.agents.sendSignal(run.id, "Stop", { client_message_id: "stop-1" });
    const seen = await waiting;
    await client.agents.sendSignal(run.id, "Stop", { client_message_id: "stop-1" });
    const after = await client.agents.retrieve(run.id);
    const history = await client.agents.retrieveMessages(run.id);
    await say(run.id, "echo still here", "m-2");
    const second = await follow(run.id, restsAfter("m-2"), { since: history.at(-1).timestamp });
    return { stopped, seen: seen.map(brief), after, history: history.map(brief), second: second.map(brief) };
  },

  async terminate() {
    const run = await start(request.text);
    const text = firstText();
    const waiting = follow(run.id, undefined, { onMessage: text.onMessage });
    await text.here;
    const terminated = check("TerminateAgentRunResponseSchema", await client.agents.terminate(run.id, "No longer needed."), "terminate");
    const seen = await waiting; // ends by itself
    const after = await client.agents.retrieve(run.id);
    let refused;
    await say(run.id, "hello?", "m-9").catch((error) => (refused = { status: error.status, message: error.message }));
    return { terminated, seen: seen.map(brief), after, refused };
  },

  async approve() {
    const run = await start(request.text);
    const asked = (await follow(run.id, isRest)).at(-1);
    const { approval_key } = asked.details.tool_approval;
    await say(run.id, request.decision, "m-2", {
      request_input_response: { request_id: asked.details.request_id },
      tool_approval_response: { decision: request.decision, approval_key },
    });
    const seen = await follow(run.id, restsAfter("m-2"), { since: asked.timestamp });
    return { asked: brief(asked), seen: seen.map(brief) };
  },

  async question() {
    const run = await start(request.text);
    const asked = (await follow(run.id, isRest)).at(-1);
    await say(run.id, asked.details.ux.options[0].id, "m-2", { request_input_response: { request_id: asked.details.request_id } });
    const seen = await follow(run.id, restsAfter("m-2"), { since: asked.timestamp });
    return { asked: brief(asked), seen: seen.map(brief) };
  },

  async restartAndFork() {
    const run = await start("echo first");
    await follow(run.id, isRest);
    await client.agents.terminate(run.id);
    const ended = await client.agents.retrieveMessages(run.id);
    const again = check("AgentRunSchema", await client.agents.restart(run.id), "restart");
    await say(run.id, "echo second", "m-2"); // at once
    const seen = await follow(run.id, restsAfter("m-2"), { since: ended.at(-1).timestamp });
    const whole = await client.agents.retrieveMessages(run.id);
    const forked = check("AgentRunSchema", await client.agents.fork(run.id), "fork");
    await say(forked.id, "echo third", "m-3");
    const branch = await follow(forked.id, restsAfter("m-3"));
    return {
      run, again, forked, ended: ended.map(brief), seen: seen.map(brief), whole: whole.map(brief),
      branch: branch.map(brief), untouched: (await client.agents.retrieveMessages(run.id)).length,
    };
  },

  async artifacts() {
    const run = await start("echo hello");
    const name = "files/a #1 ü.txt";
    const stored = check("AgentArtifactUrlResponseSchema", await client.agents.uploadArtifact(run.id, name, "first words", "text/plain"), "upload");
    await client.agents.sendSignal(run.id, "FileUploaded", { id: "f1", name: "a #1 ü.txt", content_type: "text/plain", reference: `artifact:${name}`, artifact_path: name });
    const listed = check("AgentRunArtifactPathArraySchema", await client.agents.listArtifacts(run.id), "list");
    const text = await new Response(await client.agents.downloadArtifact(run.id, name)).text();
    const content = check("AgentArtifactContentResponseSchema", await client.agents.getArtifactContent(run.id, name), "content");
    const changed = check("UpdateAgentArtifactContentResponseSchema", await client.agents.updateArtifactContent(run.id, name, { content: "other words", generation: content.generation }), "change");
    let conflict;
    await client.agents.updateArtifactContent(run.id, name, { content: "lost", generation: content.generation }).catch((error) => (conflict = error.status));
    const { url } = await client.agents.getArtifactUrl(run.id, name, "inline");
    const shown = await fetch(url);
    const broken = await fetch(url.replace(/artifact-blobs\/.{8}/, "artifact-blobs/AAAAAAAA"));
    const link = await client.files.getDownloadUrl(`agents/${run.id}/${name}`, "a.txt", "attachment");
    const saved = await fetch(link.url);
    return {
      stored, listed, text, content, changed, conflict, shown: [shown.status, await shown.text(), shown.headers.get("content-type")],
      broken: [broken.status, (await broken.json()).message], saved: [saved.status, saved.headers.get("content-disposition")],
      internal: await client.agents.listArtifacts(run.id, { visibility: "internal" }),
      messages: (await client.agents.retrieveMessages(run.id)).map(brief),
    };
  },

  async errors() {
    const found = {};
    const attempt = async (name, work) => {
      try {
        found[name] = { ok: await work() };
      } catch (error) {
        found[name] = { status: error.status, message: error.message, kind: error.constructor.name, payload: error.payload };
      }
    };
    await attempt("unknownRun", () => client.agents.retrieve("0199aaaa-0000-7000-8000-000000000000"));
    await attempt("unknownAgent", () => client.agents.start({ interaction: "nobody", data: { task: "hi" } }));
    await attempt("unknownKey", () => client.agents.start({ interaction: "default", data: { task: "hi" }, colour: "red" }));
    await attempt("process", () => client.agents.start({ process_id: "p1" }));
    await attempt("analytics", () => client.agents.getAnalyticsSummary({}));
    await attempt("advance", async () => client.agents.advance((await start("echo x")).id));
    await attempt("unauthorized", () => connect({ apikey: "nonsense" }).agents.list());
    await attempt("unknownSignal", async () => client.agents.sendSignal((await start("echo x")).id, "Dance"));
    return found;
  },

  async lists() {
    const first = await start("echo alpha", { title: "Alpha talk", tags: ["blue"] });
    await follow(first.id, isRest);
    const second = await start("echo beta", { interactive: false, title: "Beta work", data: { task: "echo beta" } });
    await follow(second.id, undefined);
    const all = check("ListAgentRunsResponseSchema", await client.agents.list({ limit: 1 }), "list");
    const next = await client.agents.list({ limit: 1, cursor: all.next_cursor });
    const done = await client.agents.list({ status: ["completed"], limit: 200 });
    const hits = check("SearchAgentRunsResponseSchema", await client.agents.search({ query: "alpha", tags: ["blue"] }), "search");
    const renamed = await client.agents.updateStatus(first.id, { title: "Gamma", topic: "letters" });
    return { first, second, all, next, done: done.items.map((run) => [run.id, run.status]), hits, renamed };
  },

  async inspect() {
    const run = await start(request.text);
    await follow(run.id, isRest);
    const details = check("WorkflowRunWithDetailsSchema", await client.agents.getRunDetails(run.id, { includeHistory: true }), "details");
    const tasks = check("WorkflowRunWithDetailsSchema", await client.workflows.getRunDetails(run.first_workflow_run_id, run.workflow_id, { historyFormat: "tasks" }), "tasks");
    const agent = check("WorkflowRunWithDetailsSchema", await client.workflows.getRunDetails(run.first_workflow_run_id, run.workflow_id, { historyFormat: "agent" }), "agent tasks");
    const children = check("ListWorkflowRunsResponseSchema", await client.agents.listChildren(run.id), "children");
    const events = [];
    const watching = client.agents.streamRunDetails(run.id, (event) => events.push(event), AbortSignal.timeout(20000));
    await sleep(500);
    await client.agents.terminate(run.id);
    await watching;
    return {
      details, tasks, agent, children, kinds: [...new Set(events.map((event) => event.type))], events: events.length,
      workstreams: await client.agents.getActiveWorkstreams(run.id), plan: await client.agents.query(run.id, "AgentPlan"),
      tools: (await client.agents.query(run.id, "AvailableTools")).tools.map((tool) => tool.name),
      interaction: check("ListWorkflowInteractionsResponseSchema", await client.workflows.getRunInteraction(run.workflow_id, run.first_workflow_run_id), "interaction"),
    };
  },

  async workflows() {
    const run = await start("echo first");
    const [workflow, id] = [run.workflow_id, run.first_workflow_run_id];
    await follow(run.id, isRest);
    await client.workflows.sendSignal(workflow, id, "UserInput", { message: "echo second", client_message_id: "m-2" });
    const seen = [];
    const rests = restsAfter("m-2");
    await client.workflows.streamMessages(workflow, id, (message, exit) => {
      seen.push(message);
      if (rests(message)) exit(null);
    });
    const posted = check("WorkflowUpdatePublishResponseSchema", await client.workflows.postMessage(id, { timestamp: 5, workflow_run_id: id, type: T.UPDATE, message: "half way", details: { event_class: "activity" } }), "post");
    const history = await client.workflows.retrieveMessages(workflow, id);
    const listed = check("ListWorkflowRunsResponseSchema", await client.workflows.listConversations({ page_size: 2, interactive: true }), "conversations");
    const executed = await client.workflows.execute("default", { vars: { data: { task: "echo go" } } });
    const cancelled = check("WorkflowActionResponseSchema", await client.workflows.cancel(workflow, id, "enough"), "cancel");
    return { seen: seen.map(brief), posted, history: history.map(brief), listed, executed, cancelled };
  },

  async socket() {
    const run = await start("echo first");
    const seen = [];
    let ended;
    const over = new Promise((done) => (ended = done));
    // Stored messages arrive before the client returns the function that sends.
    const say = async (data) => (await socket).sendSignal("UserInput", data);
    const socket = client.workflows.streamMessagesWS(run.workflow_id, run.first_workflow_run_id, (message) => {
      check("CompactMessageSchema", message, "a message over the socket");
      seen.push(message);
      if (message.t === T.IDLE && !seen.some((one) => one.d?.ack === "m-2")) say({ message: "echo second", client_message_id: "m-2" });
      else if (message.t === T.IDLE) client.agents.terminate(run.id);
      else if (message.t === T.TERMINATED) ended();
    });
    await Promise.race([over, sleep(25000)]);
    return { seen };
  },

  async tokens() {
    const jwt = await client.getRawJWT();
    const payload = await client.getDecodedJWT();
    const other = await VertesiaClient.fromAuthToken(jwt);
    const renewed = await other.getAuthToken(jwt);
    return { payload, account: await client.getAccount(), works: (await other.agents.list({ limit: 1 })).items.length >= 0, renewed: renewed.token.split(".").length };
  },
};

answer({ ...(await scenarios[request.scenario]()), problems });
process.exit(0);

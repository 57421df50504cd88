// Runs turns of one thread with the real client. Argument: {url, key, agent, thread, turns}; each turn has `text`, `tools`,
// `outputs` (by tool), `resume` (payloads by reason; null cancels), `runId`, `cutAfter` (events of text). The last line is
// the list of what each turn gave.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const require = createRequire(process.env.NODE_PATH + "/");
const { HttpAgent, buildResumeArray } = require("@ag-ui/client");
const { EventSchema } = require("@ag-ui/core/schemas");

const { url, key, agent: name, thread, turns } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({
  url: `${url}/ag-ui/agents/${name}`,
  threadId: thread,
  headers: { Authorization: `Bearer ${key}` },
});

function answer(turn) {
  if (turn.text) agent.addMessage({ id: randomUUID(), role: "user", content: turn.text });
  const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
  const done = new Set(agent.messages.map((message) => message.toolCallId));
  for (const call of calls.filter((call) => !done.has(call.id) && turn.outputs?.[call.function.name])) {
    const content = turn.outputs[call.function.name];
    agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content });
  }
  if (!turn.resume) return {};
  const responses = Object.fromEntries(
    agent.pendingInterrupts.map(({ id, reason }) => {
      const payload = turn.resume[reason];
      return [id, payload === null ? { status: "cancelled" } : { status: "resolved", payload }];
    }),
  );
  return { resume: buildResumeArray(agent.pendingInterrupts, responses) };
}

async function run(turn) {
  const [events, invalid] = [[], []];
  let [error, pieces] = [null, 0];
  const subscriber = {
    onEvent: ({ event }) => {
      events.push(event);
      const checked = EventSchema.safeParse(event);
      if (!checked.success) invalid.push({ event, problem: String(checked.error) });
      if (turn.cutAfter && event.type === "TEXT_MESSAGE_CONTENT" && ++pieces === turn.cutAfter) agent.abortRun();
    },
    onRunFailed: (failed) => {
      error = String(failed.error);
    },
  };
  try {
    const runId = turn.runId ?? randomUUID();
    await agent.runAgent({ runId, tools: turn.tools, context: turn.context, ...answer(turn) }, subscriber);
  } catch (failure) {
    error = String(failure);
  }
  const { messages, state, pendingInterrupts: interrupts } = structuredClone({
    messages: agent.messages,
    state: agent.state,
    pendingInterrupts: agent.pendingInterrupts,
  });
  return { events, invalid, error, messages, state, interrupts };
}

const results = [];
for (const turn of turns) results.push(await run(turn));
console.log(JSON.stringify(results));

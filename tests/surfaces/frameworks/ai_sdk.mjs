// Scenarios with the AI SDK, over both protocols; see drill.py for the exchange with the test.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import readline from "node:readline";
import { z } from "zod";

const { url, key, model: name, protocol } = JSON.parse(process.argv[2]);
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const model = protocol === "chat" ? openai.chat(name) : openai.responses(name);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
let pauses = false;

const weather = tool({
  description: "Read the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    if (pauses) {
      write({ paused: city });
      await lines.next();
    }
    return `${city.length} degrees in ${city}`;
  },
});

async function pieces(text, count = Infinity) {
  const found = [];
  const abort = new AbortController();
  for await (const piece of streamText({ model, prompt: text, abortSignal: abort.signal }).textStream) {
    found.push(piece);
    if (found.length === count) {
      abort.abort();
      break;
    }
  }
  return found;
}

const scenarios = {
  tools: async (prompt) =>
    (await generateText({ model, prompt, tools: { read_weather: weather }, stopWhen: isStepCount(5) })).text,
  stream: (text) => pieces(text),
  cut: (text) => pieces(text, 3),
  structured: async (prompt) => {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    return (await generateText({ model, prompt, output: Output.object({ schema }) })).output;
  },
  picture: async (text) => {
    const content = [{ type: "text", text }, { type: "image", image: PIXEL, mediaType: "image/png" }];
    return (await generateText({ model, messages: [{ role: "user", content }] })).text;
  },
  second: async (text, following) => {
    const first = [{ role: "user", content: text }];
    const { response } = await generateText({ model, messages: first });
    return (await generateText({ model, messages: [...first, ...response.messages, { role: "user", content: following }] }))
      .text;
  },
};

write({ scenarios: Object.keys(scenarios), answersBy: "", structuresBy: "" });
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  const asked = JSON.parse(line.value);
  pauses = asked.pauses;
  try {
    write({ result: await scenarios[asked.scenario](...asked.arguments) });
  } catch (error) {
    write({ error: String(error.stack ?? error).slice(-3000) });
  }
}

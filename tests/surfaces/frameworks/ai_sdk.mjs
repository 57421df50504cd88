// Scenarios with the AI SDK, over both protocols.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { key, model as name, PIXEL, protocol, readWeather, run, url } from "./program.mjs";

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const model = protocol === "chat" ? openai.chat(name) : openai.responses(name);

const weather = tool({
  description: "Read the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: readWeather,
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

await run({
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
});

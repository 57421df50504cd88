// Scenarios with OpenAI's SDK for Node, over both protocols.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { key, model, PIXEL, protocol, readWeather, run, url } from "./program.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 5 });
const Weather = z.object({ city: z.string(), degrees: z.number() });
const PICTURE = `data:image/png;base64,${PIXEL}`;
const definition = {
  name: "read_weather",
  description: "Read the weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const user = (content) => ({ role: "user", content });

async function pieces(stream, textOf, count = Infinity) {
  const found = [];
  for await (const event of await stream) {
    if (textOf(event)) found.push(textOf(event));
    if (found.length === count) break; // the SDK closes the connection
  }
  return found;
}

const chat = {
  async tools(text) {
    const tools = [{ type: "function", function: { ...definition, function: readWeather, parse: JSON.parse } }];
    return client.chat.completions.runTools({ model, messages: [user(text)], tools }).finalContent();
  },
  stream: (text) => streamed(text),
  cut: (text) => streamed(text, 3),
  async structured(text) {
    const response_format = zodResponseFormat(Weather, "weather");
    const { choices } = await client.chat.completions.parse({ model, messages: [user(text)], response_format });
    return choices[0].message.parsed;
  },
  picture: (text) => complete([user([{ type: "text", text }, { type: "image_url", image_url: { url: PICTURE } }])]),
  second: async (text, following) =>
    complete([user(text), { role: "assistant", content: await complete([user(text)]) }, user(following)]),
};

async function complete(messages) {
  return (await client.chat.completions.create({ model, messages })).choices[0].message.content;
}

function streamed(text, count) {
  const stream = client.chat.completions.create({ model, messages: [user(text)], stream: true });
  return pieces(stream, (chunk) => chunk.choices[0]?.delta.content, count);
}

const responses = {
  async tools(text) {
    const tools = [{ type: "function", strict: false, ...definition }];
    let response = await client.responses.create({ model, input: text, tools });
    for (;;) {
      const calls = response.output.filter(({ type }) => type === "function_call");
      if (!calls.length) return response.output_text;
      const input = [];
      for (const { call_id, arguments: given } of calls) {
        input.push({ type: "function_call_output", call_id, output: await readWeather(JSON.parse(given)) });
      }
      response = await client.responses.create({ model, input, tools, previous_response_id: response.id });
    }
  },
  stream: (text) => respond(text),
  cut: (text) => respond(text, 3),
  async structured(text) {
    const format = zodTextFormat(Weather, "weather");
    return (await client.responses.parse({ model, input: text, text: { format } })).output_parsed;
  },
  async picture(text) {
    const content = [{ type: "input_text", text }, { type: "input_image", image_url: PICTURE, detail: "auto" }];
    return (await client.responses.create({ model, input: [user(content)] })).output_text;
  },
  async second(input, following) {
    const first = await client.responses.create({ model, input });
    const next = { model, input: following, previous_response_id: first.id };
    return (await client.responses.create(next)).output_text;
  },
};

function respond(input, count) {
  const stream = client.responses.create({ model, input, stream: true });
  return pieces(stream, (event) => event.type === "response.output_text.delta" && event.delta, count);
}

await run(protocol === "chat" ? chat : responses);

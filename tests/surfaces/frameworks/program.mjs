// The exchange of a program of Node with the test, and what its scenarios share; see drill.py.
import readline from "node:readline";

export const { url, key, model, protocol } = JSON.parse(process.argv[2]);
export const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
let pauses = false;

export async function readWeather({ city }) {
  if (pauses) {
    write({ paused: city });
    await lines.next();
  }
  return `${city.length} degrees in ${city}`;
}

// Answer the lines of the input until it ends.
export async function run(scenarios) {
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
}

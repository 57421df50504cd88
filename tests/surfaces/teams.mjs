// Microsoft's playground for agents, for tests/surfaces/test_teams.py: ends when its standard input does.
import { spawn } from "node:child_process";

const [port, endpoint] = process.argv.slice(2);
const options = ["-e", endpoint, "-c", "msteams", "-p", port, "--su", `http://127.0.0.1:${port}/_connector`, "--dt"];
const playground = spawn(process.execPath, ["node_modules/.bin/agentsplayground", "start", ...options], {
  stdio: ["ignore", "pipe", "inherit"],
});
playground.stdout.on("data", (text) => String(text).includes("Listening") && console.log("ready"));
playground.on("exit", () => process.exit(0));
process.stdin.resume();
process.stdin.on("end", () => playground.kill());

// An emulated Slack for tests/surfaces/test_slack.py: sends events to the hook, ends when its standard input does.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createEmulator } from "emulate";

const [port, hook, token, signingSecret] = process.argv.slice(2);

// The seed names no subscribers of events: one is added where the plugin gets its dispatcher.
const folder = join(process.cwd(), "node_modules", "emulate", "dist");
const file = readdirSync(folder).find(
  (name) => /^dist-.*\.js$/.test(name) && readFileSync(join(folder, name), "utf8").includes('"/api/chat.postMessage"'),
);
const { slackPlugin } = await import(pathToFileURL(join(folder, file)).href);
const register = slackPlugin.register;
slackPlugin.register = (app, store, webhooks, ...others) => {
  webhooks.register({ owner: "slack", url: hook, events: ["*"], active: true });
  return register.call(slackPlugin, app, store, webhooks, ...others);
};

const bot = { app_id: "AKOMAND01", bot_id: "BKOMAND01", bot_user_id: "UKOMAND01" };
const slack = await createEmulator({
  service: "slack",
  port: Number(port),
  baseUrl: `http://127.0.0.1:${port}`,
  seed: {
    slack: {
      signing_secret: signingSecret,
      users: [{ name: "ada", real_name: "Ada Lovelace", profile: { display_name: "Ada" } }],
      oauth_apps: [{ ...bot, client_id: "1.2", client_secret: "secret", name: "Komand", redirect_uris: [] }],
      tokens: [
        { token, type: "bot", user_id: bot.bot_user_id, ...bot },
        { token: "xoxp-ada", user: "ada" },
      ],
    },
  },
});
console.log("ready");
process.stdin.resume();
process.stdin.on("end", async () => {
  await slack.close();
  process.exit(0);
});

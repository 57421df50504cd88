// A Bot API server for tests/surfaces/test_telegram.py, ends when its standard input does.
import TelegramServer from "telegram-test-api";

process.on("unhandledRejection", (reason) => console.error(String(reason))); // a webhook that refuses
const telegram = new TelegramServer({ port: Number(process.argv[2]), host: "127.0.0.1", storeTimeout: 600 });
await telegram.start();
console.log("ready");
process.stdin.resume();
process.stdin.on("end", async () => {
  await telegram.stop();
  process.exit(0);
});

// An emulated Twilio for tests/surfaces/test_twilio.py: prints its address, ends when its standard input does.
import { createEmulator } from "emulate";

const [port, account, token, number, hook] = process.argv.slice(2);
const twilio = await createEmulator({
  service: "twilio",
  port: Number(port),
  baseUrl: `http://127.0.0.1:${port}`,
  seed: {
    twilio: {
      account: { sid: account, auth_token: token, friendly_name: "Emulated" },
      phone_numbers: [{ phone_number: number, friendly_name: "Ours", sms_url: hook }],
    },
  },
});
console.log("ready");
process.stdin.resume();
process.stdin.on("end", async () => {
  await twilio.close();
  process.exit(0);
});

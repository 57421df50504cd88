// An emulated Okta for tests/surfaces/test_okta.py: prints its address, ends when its standard input does.
import { createEmulator } from "emulate";

const [port, callback] = process.argv.slice(2);
const base = `http://127.0.0.1:${port}`;
const okta = await createEmulator({
  service: "okta",
  port: Number(port),
  baseUrl: base,
  seed: {
    okta: {
      users: [
        { okta_id: "00u_ada", login: "ada@okta.local", email: "ada@okta.local", first_name: "Ada", last_name: "Lovelace" },
      ],
      groups: [{ okta_id: "00g_ops", name: "komand-operators", description: "", type: "OKTA_GROUP" }],
      group_memberships: [{ group_okta_id: "00g_ops", user_okta_id: "00u_ada" }],
      oauth_clients: [
        {
          client_id: "komand",
          client_secret: "komand-secret",
          name: "Komand",
          redirect_uris: [callback],
          auth_server_id: "default",
        },
      ],
    },
  },
});
console.log("ready");
process.stdin.resume();
process.stdin.on("end", async () => {
  await okta.close();
  process.exit(0);
});

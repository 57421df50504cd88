// A page with the conversation component as its package describes it. `komand` has the address and an API key; the run
// of the query, if there is one, is shown, else the first message starts one.
import { VertesiaClient } from "@vertesia/client";
import { ThemeProvider, ToastProvider } from "@vertesia/ui/core";
import { ModernAgentConversation } from "@vertesia/ui/features";
import { RouterProvider } from "@vertesia/ui/router";
import { UserSession, UserSessionContext } from "@vertesia/ui/session";
import { createRoot } from "react-dom/client";

const { url, key } = globalThis.komand;
const client = new VertesiaClient({ serverUrl: url, storeUrl: url, tokenServerUrl: url, apikey: key });
const shownRun = new URLSearchParams(location.search).get("run") ?? undefined;

async function start(task, options) {
  const run = await client.agents.start({ interaction: "default", data: { task }, interactive: true, ...options });
  return { agent_run_id: run.id };
}

function Conversation() {
  return <ModernAgentConversation startWorkflow={start} agentRunId={shownRun} />;
}

createRoot(document.getElementById("root")).render(
  <UserSessionContext.Provider value={new UserSession(client)}>
    <ThemeProvider>
      <ToastProvider>
        <RouterProvider routes={[{ path: "*", Component: Conversation }]} />
      </ToastProvider>
    </ThemeProvider>
  </UserSessionContext.Provider>,
);

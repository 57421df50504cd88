// A page with the conversation component that has all of its properties. `komand` has the address of the installation and
// the first properties; the run of the query, if there is one, is shown, else the first message starts one. `host` changes
// the properties, and has the calls of the component by callback, the values that its functions return, and its refs.
import { VertesiaClient } from "@vertesia/client";
import { ThemeProvider, ToastProvider } from "@vertesia/ui/core";
import { ModernAgentConversation } from "@vertesia/ui/features";
import { RouterProvider } from "@vertesia/ui/router";
import { UserSession, UserSessionContext } from "@vertesia/ui/session";
import { createElement, useState } from "react";
import { createRoot } from "react-dom/client";

const { url } = globalThis.komand;
const query = new URLSearchParams(location.search);
const client = new VertesiaClient({ serverUrl: url, storeUrl: url, tokenServerUrl: url });
client.withAuthCallback(async () => `Bearer ${await (await fetch("/komand-token")).text()}`);

const host = (globalThis.host = { client, calls: {}, refs: { upload: {}, send: {}, stop: {} }, values: {} });
const plain = (value) => JSON.parse(JSON.stringify(value instanceof Map ? Object.fromEntries(value) : (value ?? null)));
const note = (name, answer) => (...given) => {
  (host.calls[name] ??= []).push(given.filter((value) => !value?.nativeEvent).map(plain));
  return typeof answer === "function" ? answer(...given) : answer;
};

function Search({ isOpen, onClose, onSelect }) {
  const choose = () => {
    onSelect({ id: host.values.document, name: "Terms" });
    host.set({ selectedDocuments: [{ id: host.values.document, name: "Terms" }] });
  };
  return isOpen && <div role="dialog" aria-label="Search"><button onClick={choose}>Terms</button><button onClick={onClose}>No</button></div>;
}

// Those whose presence changes what is shown are set by tests, by their name alone.
const OPTIONAL = {
  onClose: note("onClose"),
  resetWorkflow: note("resetWorkflow"),
  onRestart: note("onRestart"),
  onClone: note("onClone"),
  onShowDetails: note("onShowDetails"),
  renderDocumentSearch: (props) => <Search {...props} />,
  getAttachedDocs: note("getAttachedDocs", () => host.values.documents ?? []),
  getMessageContext: note("getMessageContext", () => host.values.context),
  messageFilter: (message) => !(message.message ?? "").includes("unfit"),
  resourceResolver: note("resourceResolver", ({ id }) => ({ kind: "navigate", href: `/own/${id}` })),
  initialRequestTemplate: ({ data }) => <p>Asked for {data.fund}</p>,
  StoreLinkComponent: ({ documentId, children }) => <a data-document={documentId}>{children}</a>,
  CollectionLinkComponent: ({ collectionId, children }) => <a data-collection={collectionId}>{children}</a>,
};
const NODES = ["failedAction", "composerContext", "payloadContent", "conversationContent"];
const CALLBACKS = Object.fromEntries(
  ["onFilesSelected", "onRemoveFile", "onMessage", "onAgentWorkingChange", "onProcessingFilesChange", "onPlansChange",
    "onWorkstreamStatusChange", "onShowInputChange", "onStoppingChange", "onRemoveDocument", "onAttachmentsSent"].map(
    (name) => [name, note(name)]),
);
const REFS = { fileUploadRef: host.refs.upload, sendMessageRef: host.refs.send, stopRef: host.refs.stop };

async function start(task, options) {
  const { interaction = "default", more = {} } = host.values;
  const run = await client.agents.start({ interaction, data: { task }, interactive: true, ...options, ...more });
  if (host.values.adopt) host.set({ agentRunId: run.id });
  return { agent_run_id: run.id };
}

function Conversation() {
  const [given, set] = useState({ agentRunId: query.get("run") ?? undefined, ...globalThis.komand.properties });
  host.set = (changes) => set((old) => ({ ...old, ...changes }));
  const props = { ...CALLBACKS, ...REFS, startWorkflow: start, onViewModeChange: note("onViewModeChange", (viewMode) => host.set({ viewMode })) };
  for (const [name, value] of Object.entries({ viewMode: "sliding", ...given })) {
    if (value === null) continue;
    props[name] = name in OPTIONAL && value === true ? OPTIONAL[name] : NODES.includes(name) ? createElement("p", {}, value) : value;
  }
  if (props.processingFiles) props.processingFiles = new Map(Object.entries(props.processingFiles));
  return <div style={{ height: "100vh" }}><ModernAgentConversation {...props} /></div>;
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

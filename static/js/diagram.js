// Draws one Mermaid diagram in a frame without an origin, and tells the page around it the height.

const answer = (data) => parent.postMessage(data, "*");

addEventListener("message", async ({ source: from, data }) => {
  if (from !== parent || typeof data?.source !== "string") return;
  const look = { theme: data.dark ? "dark" : "default", darkMode: Boolean(data.dark), fontFamily: "system-ui, sans-serif" };
  try {
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true, maxTextSize: 20_000, maxEdges: 400, ...look });
    const { svg } = await mermaid.render("diagram", data.source);
    document.getElementById("place").innerHTML = svg;
    answer({ height: document.getElementById("place").getBoundingClientRect().height });
  } catch {
    answer({ failed: true });
  }
});

answer(window.mermaid ? { ready: true } : { failed: true });

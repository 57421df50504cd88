// Adds the chat to a site: a button, and a frame that it opens. Include it by
//   <script src="https://komand.example.com/webchat/main/embed.js" async></script>
// data-user-id, data-user-hash, data-name: the site's logged-in user. data-label: text of the button.
(() => {
  const script = document.currentScript;
  const base = script.src.replace(/\/embed\.js.*$/, "");
  const { userId = "", userHash = "", name = "", label = "Chat" } = script.dataset;
  const small = matchMedia("(max-width: 480px)");
  const kept = `komand.webchat ${base}`;
  const remembered = `komand.webchat.open ${base}`;
  let frame = null;

  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.setAttribute("aria-expanded", "false");
  Object.assign(button.style, {
    position: "fixed", insetInlineEnd: "20px", bottom: "20px", zIndex: "2147483000", minHeight: "48px", padding: "0 22px",
    border: "0", borderRadius: "24px", background: "#0d6b60", color: "#ffffff", font: "600 16px/1.2 system-ui, sans-serif",
    boxShadow: "0 4px 18px #00000040", cursor: "pointer",
  });

  // Storage may be unavailable: then the conversation lasts as long as the page.
  function recall(storage, key) {
    try {
      return storage.getItem(key) || "";
    } catch {
      return "";
    }
  }

  function keep(storage, key, text) {
    try {
      storage.setItem(key, text);
    } catch {
      // See recall.
    }
  }

  function makeFrame() {
    const made = document.createElement("iframe");
    made.title = label;
    // Behind the #, so that no server and no log gets it.
    made.src = `${base}/widget#${new URLSearchParams({ userId, userHash, name, saved: recall(localStorage, kept) })}`;
    made.allow = "clipboard-write";
    Object.assign(made.style, {
      position: "fixed", insetInlineEnd: "20px", bottom: "80px", zIndex: "2147483000", border: "0", borderRadius: "14px",
      background: "Canvas", boxShadow: "0 8px 40px #00000040", colorScheme: "light dark",
    });
    document.body.append(made);
    return made;
  }

  function place() {
    if (!frame) return;
    const size = small.matches
      ? { width: "100%", height: "100%", bottom: "0", insetInlineEnd: "0", borderRadius: "0" }
      : { width: "380px", height: "min(620px, calc(100vh - 110px))", bottom: "80px", insetInlineEnd: "20px", borderRadius: "14px" };
    Object.assign(frame.style, size);
  }

  function show(isOpen, { focus = true } = {}) {
    frame ??= isOpen ? makeFrame() : null;
    if (!frame) return;
    place();
    frame.style.display = isOpen ? "block" : "none";
    button.style.display = isOpen && small.matches ? "none" : "block";
    button.setAttribute("aria-expanded", String(isOpen));
    keep(sessionStorage, remembered, isOpen ? "1" : "");
    if (focus) (isOpen ? frame : button).focus();
  }

  function start() {
    document.body.append(button);
    if (recall(sessionStorage, remembered)) show(true, { focus: false });
  }

  button.addEventListener("click", () => show(button.getAttribute("aria-expanded") !== "true"));
  small.addEventListener("change", () => show(button.getAttribute("aria-expanded") === "true", { focus: false }));
  addEventListener("message", (event) => {
    if (!frame || event.source !== frame.contentWindow) return;
    if (event.data?.komand === "close") show(false);
    if (event.data?.komand === "save") keep(localStorage, kept, String(event.data.saved));
  });
  document.body ? start() : addEventListener("DOMContentLoaded", start);
})();

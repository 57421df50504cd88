// Adds the chat to a site: a button, and a dialog with a frame that it opens. Include it by
//   <script src="https://komand.example.com/webchat/main/embed.js" async></script>
// data-user-id, data-user-hash, data-name: the site's logged-in user. data-label: text of the button. data-context: see describePage.
// data-texts: own texts in place of some of the chat's, as JSON.
(() => {
  const script = document.currentScript;
  const base = script.src.replace(/\/embed\.js.*$/, "");
  const { origin } = new URL(base);
  const { userId = "", userHash = "", name = "", label = "Chat", texts = "" } = script.dataset;
  const LOADING_TIME = 20_000; // milliseconds until a chat that does not load counts as unreachable
  const STARTING_TIME = 3000; // the same, for one that has loaded and does not start
  // A phone, upright or on its side: the chat fills the screen, and nothing behind it can be reached.
  const small = matchMedia("(max-width: 480px), (max-height: 480px)");
  const kept = `komand.webchat ${base}`;
  const remembered = `komand.webchat.open ${base}`;
  const STYLES = `
    button, dialog, p { position: fixed; inset: auto; inset-inline-end: 20px; z-index: 2147483000; margin: 0; box-sizing: border-box }
    button {
      bottom: 20px; min-height: 48px; padding: 0 22px; border: 1px solid #0d6b60; border-radius: 24px; background: #0d6b60;
      color: #ffffff; font: 600 16px/1.2 system-ui, sans-serif; box-shadow: 0 4px 18px #00000040; cursor: pointer;
    }
    button:focus-visible { outline: 2px solid #ffffff; outline-offset: -5px; box-shadow: 0 0 0 3px #0d6b60 }
    dialog {
      bottom: 80px; width: 380px; max-width: none; height: min(620px, calc(100vh - 110px)); max-height: none; padding: 0;
      border: 0; border-radius: 14px; overflow: hidden; background: Canvas; color-scheme: light dark; box-shadow: 0 8px 40px #00000040;
    }
    dialog::backdrop { background: none }
    iframe { display: block; width: 100%; height: 100%; border: 0; color-scheme: light dark }
    p {
      bottom: 80px; max-width: calc(100vw - 40px); padding: 10px 16px; border: 1px solid; border-radius: 10px; background: #ffffff;
      color: #ae2a1f; font: 15px/1.4 system-ui, sans-serif;
    }
    p:empty { display: none }
    @media (max-width: 480px), (max-height: 480px) {
      dialog { inset: 0; width: 100%; height: 100%; border-radius: 0; box-shadow: none }
      dialog:modal ~ button { display: none }
    }
    @media print { button, dialog, p { display: none } }
  `;

  // The site's own styles must not reach our elements. A sheet made by a script needs no permission of its security policy.
  const host = document.createElement("div");
  host.dataset.komandChat = base;
  host.style.setProperty("all", "initial", "important");
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLES);
  root.adoptedStyleSheets = [sheet];

  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", label);
  const problem = document.createElement("p");
  problem.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.setAttribute("aria-haspopup", "dialog");
  button.setAttribute("aria-expanded", "false");
  root.append(dialog, problem, button);

  // What a visitor's message says of the page. data-context: values of the site's own, as JSON; it may change.
  function describePage() {
    let data = {};
    try {
      data = JSON.parse(script.dataset.context || "{}");
    } catch {
      console.error("Komand: data-context of the chat's script is no JSON");
    }
    return { address: location.href, title: document.title, data };
  }

  let frame = null;
  let isReady = false; // the chat in the frame has started
  let timer = 0;

  // Browsers may deny storage, even to look at it: then the conversation lasts as long as the page.
  function recall(storage, key) {
    try {
      return window[storage].getItem(key) || "";
    } catch {
      return "";
    }
  }

  function keep(storage, key, text) {
    try {
      window[storage].setItem(key, text);
    } catch {
      // See recall.
    }
  }

  function makeFrame() {
    isReady = false;
    const made = document.createElement("iframe");
    made.title = label;
    // Behind the #, so that no server and no log gets it.
    made.src = `${base}/widget#${new URLSearchParams({ userId, userHash, name, saved: recall("localStorage", kept), page: JSON.stringify(describePage()), texts })}`;
    made.allow = "clipboard-write";
    made.addEventListener("load", () => waitForStart(STARTING_TIME));
    dialog.append(made);
    return made;
  }

  // Browsers show a page of their own in a frame that cannot be loaded, and report nothing.
  function waitForStart(milliseconds) {
    clearTimeout(timer);
    if (!isReady) timer = setTimeout(giveUp, milliseconds);
  }

  function giveUp() {
    frame.remove();
    frame = null;
    dialog.close();
    problem.textContent = "The chat cannot be reached. Please try again later.";
    console.error(`Komand: add ${location.origin} to the origins of ${base}, if they do not have it`);
  }

  // takesFocus: a person has asked for it.
  function open({ takesFocus }) {
    problem.textContent = "";
    if (!frame) {
      frame = makeFrame();
      waitForStart(LOADING_TIME);
    }
    place();
    button.setAttribute("aria-expanded", "true");
    keep("sessionStorage", remembered, "1");
    if (takesFocus) frame.focus();
  }

  function place() {
    if (small.matches) dialog.showModal();
    else dialog.open = true; // `show` would take the focus
  }

  dialog.addEventListener("close", () => {
    if (dialog.open) return; // shown again, in the other way
    button.setAttribute("aria-expanded", "false");
    keep("sessionStorage", remembered, "");
    button.focus();
  });

  function onMessage({ source, origin: sender, data }) {
    if (!frame || source !== frame.contentWindow || sender !== origin) return;
    if (data?.komand === "close") dialog.close();
    if (data?.komand === "save") keep("localStorage", kept, String(data.saved));
    if (data?.komand === "ready") {
      isReady = true;
      clearTimeout(timer);
      if (root.activeElement === frame) frame.contentWindow.focus(); // it was given to the empty frame
    }
  }

  // The focus goes to the frame, perhaps on another page of a site that changes its address without loading a page.
  function onBlur() {
    if (frame && isReady) frame.contentWindow.postMessage({ komand: "page", page: describePage() }, origin);
  }

  // Another page of the site has saved something.
  function onStorage({ key }) {
    if (key !== kept || !frame) return;
    frame.contentWindow.postMessage({ komand: "saved", saved: recall("localStorage", kept) }, origin);
  }

  function start() {
    if (document.querySelector(`[data-komand-chat=${JSON.stringify(base)}]`)) return; // the page includes the script twice
    document.body.append(host);
    button.addEventListener("click", () => (dialog.open ? dialog.close() : open({ takesFocus: true })));
    addEventListener("message", onMessage);
    addEventListener("blur", onBlur);
    addEventListener("storage", onStorage);
    small.addEventListener("change", () => {
      if (!dialog.open) return;
      const hasFocus = root.activeElement === frame;
      dialog.close();
      place();
      if (hasFocus) frame.focus();
    });
    // On a small screen it would cover the page that the visitor has gone to.
    if (recall("sessionStorage", remembered) && !small.matches) open({ takesFocus: false });
  }

  document.body ? start() : addEventListener("DOMContentLoaded", start);
})();

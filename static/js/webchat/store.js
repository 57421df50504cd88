// Keeps the conversation for the next page. In a frame, the site keeps it: browsers deny storage to pages of another site.
// Only pages of the account's origins can frame us. watch(onSaved): calls it when another page has saved something.

export function siteStore(saved) {
  let current = saved;
  return {
    load: () => current,
    save(text) {
      current = text;
      window.parent.postMessage({ komand: "save", saved: text }, "*");
    },
    watch(onSaved) {
      addEventListener("message", ({ source, data }) => {
        if (source !== window.parent || data?.komand !== "saved") return;
        current = String(data.saved);
        onSaved();
      });
    },
  };
}

export function ownStore(account) {
  const place = `komand.webchat.${account}`;
  return {
    load() {
      try {
        return localStorage.getItem(place);
      } catch {
        return ""; // storage is unavailable: the conversation lasts as long as the page
      }
    },
    save(text) {
      try {
        localStorage.setItem(place, text);
      } catch {
        // See load.
      }
    },
    watch(onSaved) {
      addEventListener("storage", ({ key }) => key === place && onSaved());
    },
  };
}

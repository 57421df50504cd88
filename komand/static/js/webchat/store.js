// Keeps the conversation for the next page. In a frame, the site keeps it: browsers deny storage to pages of another site.
// Only pages of the account's origins can frame us.

export function siteStore(saved) {
  return { load: () => saved, save: (text) => window.parent.postMessage({ komand: "save", saved: text }, "*") };
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
  };
}

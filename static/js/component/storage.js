// A text that a site's browser keeps for its next page. Without storage it lasts as long as the page.

export function siteStorage(place) {
  let current = "";
  return {
    load() {
      try {
        return localStorage.getItem(place) || "";
      } catch {
        return current;
      }
    },
    save(text) {
      current = text;
      try {
        localStorage.setItem(place, text);
      } catch {
        // See load.
      }
    },
    // onSaved(): another page of the site has saved something.
    watch(onSaved) {
      addEventListener("storage", ({ key }) => key === place && onSaved());
    },
  };
}

// Messages that the server has not confirmed yet, kept for the next visit. By user, because browsers are shared.

export class Unsent {
  #place;

  constructor(user, session) {
    this.#place = `komand.unsent.${user}.${session ?? "new"}`;
  }

  // Return the messages in their order: {key, values: of the request, files: [{id, name, size}], refused}.
  list() {
    try {
      return JSON.parse(localStorage.getItem(this.#place)) ?? [];
    } catch {
      return []; // storage is unavailable, or holds something else
    }
  }

  keep(message) {
    const kept = this.list();
    const place = kept.findIndex(({ key }) => key === message.key);
    kept.splice(place < 0 ? kept.length : place, 1, message);
    this.#save(kept);
  }

  drop(key) {
    this.#save(this.list().filter((message) => message.key !== key));
  }

  #save(messages) {
    try {
      if (messages.length) localStorage.setItem(this.#place, JSON.stringify(messages));
      else localStorage.removeItem(this.#place);
    } catch {
      // Storage is full or unavailable: the messages last as long as the page.
    }
  }
}

// The list of chats: a drawer on narrow screens, kept up to date, with small menus.

const REFRESH = 400;
const WHILE_RUNNING = 5000;

export function setUpSidebar() {
  const sidebar = new Sidebar();
  document.getElementById("open-sidebar").addEventListener("click", () => sidebar.toggle());
  document.getElementById("close-sidebar").addEventListener("click", () => sidebar.close());
  document.getElementById("shade").addEventListener("click", () => sidebar.close());
  document.addEventListener("click", (event) => sidebar.closeMenus(event.target));
  sidebar.element.addEventListener("htmx:beforeRequest", (event) => sidebar.stamp(event));
  document.getElementById("sessions").addEventListener("htmx:beforeSwap", (event) => sidebar.keepNewer(event));
  document.getElementById("sessions").addEventListener("htmx:afterSettle", () => sidebar.openFirst());
  document.getElementById("sessions").addEventListener("htmx:afterSettle", () => refreshNeeds());
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && sidebar.refreshSoon());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches(".rename input")) htmx.trigger(event.target, "cancel");
  });
  document.querySelector(".search").addEventListener("submit", (event) => sidebar.search(event));
  for (const failure of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    sidebar.element.addEventListener(failure, () => sidebar.openNone());
  }
  sidebar.element.addEventListener("keydown", (event) => sidebar.move(event));
  setInterval(() => sidebar.refreshWhileRunning(), WHILE_RUNNING);
  return { toggle: () => sidebar.toggle(), close: () => sidebar.close(), refreshSoon: () => sidebar.refreshSoon() };
}

// Show what waits for the user. A page where nothing waits loads no script for it.
// isHere: something in this chat may wait.
export function refreshNeeds(isHere = false) {
  if (!isHere && !document.querySelector("#sessions .asks, #needs:not([hidden])")) return;
  import("./needs.js").then(({ showNeeds }) => showNeeds());
}

class Sidebar {
  #timer = 0;
  #opensFirst = false; // the list that the next response brings
  #changes = 0; // of the list, made by the user
  #narrow = matchMedia("(max-width: 760px)");
  element = document.getElementById("sidebar");

  // Show or hide the list: as a drawer over the page, or as a column beside it.
  toggle() {
    if (!this.#narrow.matches) {
      const { dataset } = document.body;
      dataset.sidebar = dataset.sidebar === "closed" ? "open" : "closed";
      return;
    }
    if (this.#isOpen) this.close();
    else this.#open();
  }

  close() {
    const wasOpen = this.#isOpen;
    this.#show(false);
    if (wasOpen) document.getElementById("open-sidebar").focus();
    return wasOpen;
  }

  // Close all menus except the one that contains the target.
  closeMenus(target) {
    let closed = false;
    for (const menu of this.element.querySelectorAll(".menu[open]")) {
      if (menu.contains(target) && !target.closest(".menu-items button")) continue;
      menu.open = false;
      closed = true;
    }
    return closed;
  }

  // Enter in the search opens the first chat that is found. The list may be older than the last letter.
  search(event) {
    event.preventDefault();
    if (!document.getElementById("search").value.trim()) return;
    this.#opensFirst = true;
    htmx.trigger("#search", "search");
  }

  openFirst() {
    if (!this.#opensFirst) return;
    this.#opensFirst = false;
    this.#links[0]?.click();
  }

  openNone() {
    this.#opensFirst = false;
  }

  // The arrow keys move between the search and the chats.
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const places = [document.getElementById("search"), ...this.#links];
    const next = places[places.indexOf(event.target) + step];
    if (!step || !places.includes(event.target) || !next) return;
    event.preventDefault();
    next.focus();
  }

  get #links() {
    return [...document.querySelectorAll("#sessions a")];
  }

  refreshSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), REFRESH);
  }

  refreshWhileRunning() {
    if (document.visibilityState === "visible" && document.querySelector("#sessions .dot:not(.asks)")) this.#refresh();
  }

  // Refresh the list unless the user is using it.
  #refresh() {
    if (!this.#isInUse) htmx.trigger("#search", "refresh");
  }

  // Note in a request how often the user had changed the list.
  stamp({ detail }) {
    detail.requestConfig.changes = this.#changes;
  }

  // Keep the list if the user has begun to use it, or has changed it, since the request.
  keepNewer({ detail }) {
    const { triggeringEvent, changes } = detail.requestConfig ?? {};
    if (triggeringEvent?.type !== "refresh") {
      this.#changes += 1;
      return;
    }
    const isOld = changes !== this.#changes;
    if (isOld || this.#isInUse) detail.shouldSwap = false;
    if (isOld) this.refreshSoon();
  }

  get #isInUse() {
    const sessions = document.getElementById("sessions");
    return sessions.querySelector(".menu[open], .rename") || sessions.contains(document.activeElement);
  }

  get #isOpen() {
    return document.body.dataset.drawer === "open";
  }

  #open() {
    this.#show(true);
    document.getElementById("close-sidebar").focus();
  }

  #show(isOpen) {
    document.body.dataset.drawer = isOpen ? "open" : "closed";
    document.getElementById("shade").hidden = !isOpen;
    document.getElementById("open-sidebar").setAttribute("aria-expanded", String(isOpen));
    document.querySelector(".main").inert = isOpen;
  }
}

// The list of chats: a drawer on narrow screens, kept up to date, with small menus.

const REFRESH = 400;
const WHILE_RUNNING = 5000;

export function setUpSidebar() {
  const sidebar = new Sidebar();
  document.getElementById("open-sidebar").addEventListener("click", () => sidebar.toggle());
  document.getElementById("close-sidebar").addEventListener("click", () => sidebar.close());
  document.getElementById("shade").addEventListener("click", () => sidebar.close());
  document.addEventListener("click", (event) => sidebar.closeMenus(event.target));
  document.getElementById("sessions").addEventListener("htmx:beforeSwap", (event) => sidebar.keepInUse(event));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches(".rename input")) htmx.trigger(event.target, "cancel");
  });
  setInterval(() => sidebar.refreshWhileRunning(), WHILE_RUNNING);
  return { toggle: () => sidebar.toggle(), close: () => sidebar.close(), refreshSoon: () => sidebar.refreshSoon() };
}

class Sidebar {
  #timer = 0;
  #narrow = matchMedia("(max-width: 760px)");

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
    for (const menu of document.querySelectorAll(".menu[open]")) {
      if (menu.contains(target) && !target.closest(".menu-items button")) continue;
      menu.open = false;
      closed = true;
    }
    return closed;
  }

  refreshSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#refresh(), REFRESH);
  }

  refreshWhileRunning() {
    if (document.visibilityState === "visible" && document.querySelector("#sessions .dot")) this.#refresh();
  }

  // Refresh the list unless the user is using it.
  #refresh() {
    if (!this.#isInUse) htmx.trigger("#search", "refresh");
  }

  // Keep the list if the user has begun to use it since the request.
  keepInUse(event) {
    if (event.detail.requestConfig?.triggeringEvent?.type === "refresh" && this.#isInUse) event.detail.shouldSwap = false;
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

// Commands in the message box: their list while one is written, and what they do.

const byId = (id) => document.getElementById(id);

// composer: with `complete(text)`, `focus()` and `running()`, which returns the run in progress.
export class Commands {
  #composer;
  #box = byId("message");
  #list = byId("commands");

  constructor(composer) {
    this.#composer = composer;
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault()); // the box keeps the focus
    this.#list.addEventListener("click", (event) => this.#choose(event.target.closest("li")));
    this.#box.addEventListener("blur", () => this.hide());
    this.#box.setAttribute("aria-controls", "commands");
    this.#box.setAttribute("aria-autocomplete", "list");
  }

  get isOpen() {
    return !this.#list.hidden;
  }

  // Whether a text begins with the name of a command. A space before it makes it a message.
  isCommand(text) {
    const [name] = text.split(/\s/, 1);
    return options().some(({ dataset }) => dataset.name === name);
  }

  // Show the commands that begin with the text of the box.
  suggest() {
    const text = this.#box.value;
    let some = false;
    for (const option of options()) {
      option.hidden = !option.dataset.name.startsWith(text);
      some ||= !option.hidden;
    }
    this.#list.hidden = !some;
    this.#select(some ? this.#shown[0] : null);
  }

  hide() {
    this.#list.hidden = true;
    this.#select(null);
  }

  // Take a key while the list is open. Return whether it was one of the list's.
  key(event) {
    const shown = this.#shown;
    const place = shown.indexOf(this.#selected);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#select(shown.at((place + step + shown.length) % shown.length));
    else if (event.key === "Escape") this.hide();
    else if (event.key === "Tab") this.#complete(this.#selected);
    else if (event.key === "Enter" && !event.shiftKey) this.#choose(this.#selected);
    else return false;
    event.preventDefault();
    event.stopPropagation(); // Escape would stop the answer
    return true;
  }

  // Carry out a command. Return the text that stays in the box.
  run(text) {
    this.hide();
    const [, name, argument] = text.match(/^(\S+)\s*([^]*)$/);
    const left = ACTIONS[name](argument.trim(), this.#composer);
    return typeof left === "string" ? left : "";
  }

  get #shown() {
    return options().filter(({ hidden }) => !hidden);
  }

  get #selected() {
    return this.#list.querySelector("[aria-selected=true]");
  }

  #select(option) {
    this.#selected?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.#box.setAttribute("aria-activedescendant", option.id);
    else this.#box.removeAttribute("aria-activedescendant");
  }

  #complete(option) {
    this.#composer.complete(`${option.dataset.name} `);
    this.hide();
  }

  // A command that takes an argument is completed, another one is carried out.
  #choose(option) {
    if (!option) return;
    const isWhole = this.#box.value === option.dataset.name;
    if (option.hasAttribute("data-argument") && !isWhole) this.#complete(option);
    else this.#composer.complete(this.run(option.dataset.name));
    if (this.#box.value === "/") this.suggest();
  }
}

function options() {
  return [...document.querySelectorAll("#commands li")];
}

function note(text) {
  byId("note").textContent = text;
}

const ACTIONS = {
  "/new": () => location.assign("/chat/new"),
  "/stop": () => (byId("stop").hidden ? note("Nothing is running.") : byId("stop").click()),
  "/agent": chooseAgent,
  "/agents": async () => {
    if (!document.querySelector("#log .workstream")) note("This chat has no workstreams.");
    else (await import("./team.js")).openTeam();
  },
  "/compact": () => {
    const button = byId("compact");
    if (button) button.click();
    else note("There is nothing to summarise yet.");
  },
  "/status": (_, composer) => {
    const status = document.querySelector(`#status-${CSS.escape(composer.running() ?? "")} .status-text`);
    const waiting = document.querySelectorAll(".status[data-queued]").length;
    const more = waiting ? ` ${waiting} more ${waiting === 1 ? "message waits" : "messages wait"}.` : "";
    note((composer.running() ? `The agent is at work: ${status?.textContent ?? "writing"}` : "Nothing is running.") + more);
  },
  "/approve": () => decide("allow_once"),
  "/deny": (reason) => decide("deny", reason),
  "/help": () => "/",
};

function chooseAgent(wanted) {
  const menu = byId("agent");
  const found = [...menu.options].filter(({ value, text }) => [value, text].some((name) => name.toLowerCase() === wanted.toLowerCase()));
  if (found.length === 1) {
    menu.value = found[0].value;
    menu.dispatchEvent(new Event("change", { bubbles: true }));
    note(`${found[0].text} answers from now on.`);
  } else if (byId("open-agents") && !byId("open-agents").hidden) {
    byId("open-agents").click();
  } else {
    note(`Choose one of: ${[...menu.options].map(({ text }) => text).join(", ")}.`);
  }
}

// Decide the first request for approval in the chat.
function decide(decision, reason = "") {
  const approval = document.querySelector("#log .approval[data-pending]:has(.approval-choices)");
  const input = approval?.querySelector(".deny-note input");
  if (!approval) {
    note("No request waits for your decision in this chat.");
  } else if (reason && input) {
    input.value = reason;
    input.form.querySelector("button").click();
  } else {
    approval.querySelector(`button[value="${decision}"]`)?.click();
  }
}

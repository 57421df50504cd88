// Keeps the newest text in view while the reader is at the end; otherwise offers a button to go there.

const NEAR = 40; // pixels from the end that still count as the end
const MARGIN = 8; // pixels above an element that is shown from its top on

// Whether the reader is still at the end: growing text does not count, and any move up leaves the end.
// top: the last known position. wasAtEnd: then.
export function isAtEnd(view, top, wasAtEnd) {
  if (view.scrollTop < top) return below(view) < 1;
  return wasAtEnd || below(view) < NEAR;
}

// How many pixels are below the view.
function below({ scrollHeight, scrollTop, clientHeight }) {
  return scrollHeight - scrollTop - clientHeight;
}

export class Scroll {
  #view = document.getElementById("scroll");
  #jump = document.getElementById("jump");
  #sticks = true;
  #shown = null; // an element whose top has to be in view
  #top = 0; // the last known position

  constructor() {
    this.#view.addEventListener("scroll", () => this.#look(), { passive: true });
    this.#jump.addEventListener("click", () => this.toEnd());
    this.#view.addEventListener("click", (event) => event.target.closest("summary") && this.#holdStill());
    const grown = new ResizeObserver(() => this.keeping(() => {}));
    grown.observe(this.#view);
    grown.observe(this.#view.querySelector(".column"));
    this.#keepPlaceWhenOlderComes();
    this.#view.addEventListener("toggle", markMenu, true);
    if (!this.#toOpenedTurn()) this.toEnd();
  }

  // Change the conversation, and stay at the end if the reader is there.
  keeping(change) {
    this.#look();
    const before = this.#view.scrollHeight;
    const result = change();
    if (this.#sticks) this.toEnd();
    else if (this.#view.scrollHeight > before) this.#jump.hidden = false;
    return result;
  }

  // Scroll by some pixels, away from the end.
  shift(pixels) {
    if (!pixels) return;
    this.#view.scrollTop += pixels;
    this.#top = this.#view.scrollTop;
    this.#sticks = false;
  }

  // Show an element that is higher than what is left of the view from its top on.
  showTop(element) {
    if (this.#sticks) this.#shown = element;
  }

  toEnd() {
    this.#view.scrollTop = this.#view.scrollHeight;
    this.#top = this.#view.scrollTop;
    this.#sticks = true;
    this.#jump.hidden = true;
    const above = this.#shown?.isConnected ? this.#view.getBoundingClientRect().top - this.#shown.getBoundingClientRect().top : 0;
    this.#shown = null;
    if (above > 0) this.shift(-above - MARGIN);
  }

  // Scroll to the turn that the address names, such as a found message. Return whether there is one.
  #toOpenedTurn() {
    const turn = location.hash.startsWith("#turn-") && document.getElementById(location.hash.slice(1));
    if (!turn) return false;
    turn.scrollIntoView();
    this.#top = this.#view.scrollTop;
    this.#sticks = false;
    this.#jump.hidden = below(this.#view) < NEAR;
    return true;
  }

  // Detect whether the reader has scrolled.
  #look() {
    this.#sticks = isAtEnd(this.#view, this.#top, this.#sticks);
    if (this.#sticks && below(this.#view) < NEAR) this.#jump.hidden = true;
    this.#top = this.#view.scrollTop;
  }

  // An element that the reader opens stays where it is.
  #holdStill() {
    this.#sticks = false;
  }

  #keepPlaceWhenOlderComes() {
    let fromEnd = 0;
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      if (event.detail.target.id === "older") fromEnd = this.#view.scrollHeight - this.#view.scrollTop;
    });
    document.body.addEventListener("htmx:afterSettle", () => {
      if (fromEnd) this.#view.scrollTop = this.#top = this.#view.scrollHeight - fromEnd;
      fromEnd = 0;
    });
  }
}

// A turn out of view is skipped by the browser, which cuts off what leaves it, such as the open menu of its answer.
function markMenu({ target }) {
  if (!target.matches(".about-answer")) return;
  for (const around of [target.closest(".turn"), target.closest(".earlier")]) around?.toggleAttribute("data-about", target.open);
}

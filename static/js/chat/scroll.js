// Keeps the newest words in view as long as the reader is at the end; otherwise offers to go there.

const NEAR = 60; // pixels from the end that still count as the end

export class Scroll {
  #view = document.getElementById("scroll");
  #jump = document.getElementById("jump");
  #sticks = true;

  constructor() {
    this.#view.addEventListener("scroll", () => this.#look(), { passive: true });
    this.#jump.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.#sticks && this.toEnd()).observe(this.#view.querySelector(".column"));
    new ResizeObserver(() => this.#sticks && this.toEnd()).observe(this.#view);
    this.#keepPlaceWhenOlderComes();
    this.toEnd();
  }

  // Do something that changes the conversation, and stay at the end if that is where the reader is.
  keeping(change) {
    const before = this.#view.scrollHeight;
    const result = change();
    if (this.#sticks) this.toEnd();
    else if (this.#view.scrollHeight > before) this.#jump.hidden = false;
    return result;
  }

  toEnd() {
    this.#sticks = true;
    this.#jump.hidden = true;
    this.#view.scrollTop = this.#view.scrollHeight;
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.#view;
    this.#sticks = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.#sticks) this.#jump.hidden = true;
  }

  #keepPlaceWhenOlderComes() {
    let fromEnd = 0;
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      if (event.detail.target.id === "older") fromEnd = this.#view.scrollHeight - this.#view.scrollTop;
    });
    document.body.addEventListener("htmx:afterSettle", () => {
      if (fromEnd) this.#view.scrollTop = this.#view.scrollHeight - fromEnd;
      fromEnd = 0;
    });
  }
}

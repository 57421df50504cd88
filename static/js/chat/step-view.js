// The text of one step on the page: finished blocks, then the open block, which changes in place as it grows.
import { showFormulas } from "./formulas.js";
import { freezeColumns } from "./tables.js";

export class StepView {
  #blocks; // the element that contains all blocks
  #plain; // shows text of which there is no rendering
  #done = 0; // number of elements of finished blocks
  #fresh = []; // HTML of finished blocks that are not painted yet
  #painted = null; // the draft that is shown

  constructor(part) {
    this.#blocks = part.querySelector(".markdown");
    this.#plain = part.querySelector(".open-text");
  }

  // Add the HTML of finished blocks.
  add(blocks) {
    this.#fresh.push(...blocks);
  }

  paint({ draft, rest }) {
    if (this.#fresh.length || this.#painted !== draft) {
      const finished = elements(this.#fresh.join(""));
      adapt(this.#blocks, this.#done, [...finished, ...elements(draft?.html ?? "")]);
      const ended = [...this.#blocks.children].slice(this.#done, this.#done + finished.length);
      this.#done += finished.length;
      this.#fresh = [];
      this.#painted = draft;
      freezeColumns(this.#blocks);
      showFormulas(ended);
    }
    const tip = this.#blocks.querySelector(".tip");
    if (tip) tip.textContent = rest;
    this.#plain.textContent = draft ? "" : rest.replace(/^\s*\n/, "");
  }
}

function elements(html) {
  return html ? [...new DOMParser().parseFromString(html, "text/html").body.children] : [];
}

// Change the children from `start` on to equal the fresh nodes. What is equal stays, with its focus and selection.
function adapt(parent, start, fresh) {
  const old = [...parent.childNodes].slice(start);
  fresh.forEach((node, number) => {
    if (number < old.length) adaptNode(old[number], node);
    else parent.append(node);
  });
  for (const surplus of old.slice(fresh.length)) surplus.remove();
}

function adaptNode(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) old.data = fresh.data;
  else if (old.nodeType === Node.ELEMENT_NODE && bare(old).isEqualNode(bare(fresh))) {
    adapt(old, 0, [...fresh.childNodes]);
  } else old.replaceWith(fresh);
}

// The element without its content and without what the page has set: widths of columns, wrapped code.
function bare(element) {
  const copy = element.cloneNode(false);
  for (const name of ["style", "data-wrapped", "aria-pressed"]) copy.removeAttribute?.(name);
  return copy;
}

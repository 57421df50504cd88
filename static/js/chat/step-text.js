// The streamed text of one step, proved by its offsets: what comes twice is cut, what is missing is noticed.

export const GAP = Symbol("gap");

export class StepText {
  // done: how far the text stands in the page as finished HTML, in code points; open: the code points after that.
  // draft: {end, html} for the first of those, until they are finished.
  done = 0;
  open = [];
  draft = null;

  get length() {
    return this.done + this.open.length;
  }

  // The text that no HTML stands for yet.
  get openText() {
    return this.open.slice(this.draft ? this.draft.end - this.done : 0).join("");
  }

  // Take what an act brings. Returns the HTML of the blocks that are new, or GAP (and nothing is taken).
  take({ offset, text, blocks, draft }) {
    let done = this.done;
    const fresh = [];
    for (const [start, end, html] of blocks) {
      if (end <= done) continue;
      if (start !== done) return GAP;
      fresh.push(html);
      done = end;
    }
    const length = Math.max(this.length, done);
    if (offset > length) return GAP;
    if (fresh.length) this.draft = null;
    this.open = this.open.slice(done - this.done);
    this.done = done;
    for (const point of Array.from(text).slice(length - offset)) this.open.push(point);
    if (draft && draft[0] === done && draft[1] <= this.length) this.draft = { end: draft[1], html: draft[2] };
    return fresh;
  }
}

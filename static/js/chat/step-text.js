// The streamed text of one step, proved by its offsets: what comes twice is cut, what is missing is noticed.

export const GAP = Symbol("gap");

export class StepText {
  // done: how far the text stands in the page as finished HTML, in code points; open: the code points after that.
  done = 0;
  open = [];

  get length() {
    return this.done + this.open.length;
  }

  get openText() {
    return this.open.join("");
  }

  // Take what an act brings. Returns the HTML of the blocks that are new, or GAP (and nothing is taken).
  take({ offset, text, blocks }) {
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
    this.open = this.open.slice(done - this.done);
    this.done = done;
    for (const point of Array.from(text).slice(length - offset)) this.open.push(point);
    return fresh;
  }
}

// The streamed text of one step. By its offsets, duplicates are cut and gaps are detected.

export const GAP = Symbol("gap");

export class StepText {
  // done: length in code points of the text that the page shows as finished HTML; open: the code points after it.
  // draft: {end, html} of the open text up to `end`, until it is finished.
  done = 0;
  open = [];
  draft = null;

  get length() {
    return this.done + this.open.length;
  }

  // The text that is in no HTML yet.
  get rest() {
    return this.open.slice(this.draft ? this.draft.end - this.done : 0).join("");
  }

  // Take a frame. Returns the HTML of the new blocks, or GAP, and then takes nothing.
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

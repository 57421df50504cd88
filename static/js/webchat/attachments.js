// The files that go with the next message.

const MOST_FILES = 10;

export class Attachments {
  // onProblem(text): a file cannot be attached.
  constructor({ input, chosen, names, remove, onProblem }) {
    Object.assign(this, { input, chosen, names, remove, onProblem });
    this.largest = Number(input.dataset.largest); // bytes
    this.files = [];
    input.addEventListener("change", () => {
      this.add([...input.files]);
      input.value = ""; // the same file can be chosen again
    });
    remove.addEventListener("click", () => {
      this.set([]);
      input.focus();
    });
  }

  add(files) {
    const small = files.filter((file) => file.size < this.largest);
    const large = files.find((file) => file.size >= this.largest);
    const all = [...this.files, ...small];
    this.set(all.slice(0, MOST_FILES));
    if (large) this.onProblem(`${large.name} is too large. ${this.advice}`);
    else if (all.length > MOST_FILES) this.onProblem(`A message can have at most ${MOST_FILES} files. The others are not attached.`);
    else this.onProblem("");
  }

  get advice() {
    const [size, unit] = this.largest < 1e6 ? [this.largest / 1e3, "KB"] : [this.largest / 1e6, "MB"];
    return `A file can have at most ${size.toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}.`;
  }

  set(files) {
    this.files = files;
    this.names.textContent = files.length ? `Attached: ${files.map((file) => file.name).join(", ")}` : "";
    this.chosen.hidden = !files.length;
  }

  take() {
    const { files } = this;
    this.set([]);
    return files;
  }
}

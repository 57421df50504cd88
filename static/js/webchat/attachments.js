// The files that go with the next message.

const MOST_FILES = 10;

export class Attachments {
  // onProblem(text): a file cannot be attached. onChange(files): others go with the next message now.
  // most: files of a message. input: with `accept`, the types that it takes.
  constructor({ input, chosen, names, remove, onProblem, onChange = () => {}, most = MOST_FILES }) {
    Object.assign(this, { input, chosen, names, remove, onProblem, onChange, most });
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
    const fitting = files.filter((file) => file.size < this.largest && this.isAccepted(file));
    const large = files.find((file) => file.size >= this.largest);
    const strange = files.find((file) => !this.isAccepted(file));
    const all = [...this.files, ...fitting];
    this.set(all.slice(0, this.most));
    if (strange) this.onProblem(`${strange.name} cannot be attached. Files of these types can: ${this.input.accept}.`);
    else if (large) this.onProblem(`${large.name} is too large. ${this.advice}`);
    else if (all.length > this.most) {
      this.onProblem(`A message can have at most ${this.most} file${this.most === 1 ? "" : "s"}. The others are not attached.`);
    } else this.onProblem("");
  }

  // Whether `accept` of the input names the file's type: by its ending, its media type, or a range of those.
  isAccepted({ name, type }) {
    const kinds = this.input.accept.toLowerCase().split(",").map((kind) => kind.trim()).filter(Boolean);
    return !kinds.length || kinds.some((kind) => {
      if (kind.startsWith(".")) return name.toLowerCase().endsWith(kind);
      return kind.endsWith("/*") ? type.startsWith(kind.slice(0, -1)) : type === kind;
    });
  }

  get advice() {
    const [size, unit] = this.largest < 1e6 ? [this.largest / 1e3, "KB"] : [this.largest / 1e6, "MB"];
    return `A file can have at most ${size.toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}.`;
  }

  set(files) {
    this.files = files;
    this.names.textContent = files.length ? `Attached: ${files.map((file) => file.name).join(", ")}` : "";
    this.chosen.hidden = !files.length;
    this.onChange(files);
  }

  take() {
    const { files } = this;
    this.set([]);
    return files;
  }
}

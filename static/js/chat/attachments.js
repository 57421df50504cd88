// Files for the next message: chosen, dropped or pasted, uploaded at once, sent with the message by their ids.
import { newId } from "./ids.js";

const UPLOADS = "/api/attachments";
const byId = (id) => document.getElementById(id);

export class Attachments {
  #files = []; // {name, size, row, id: once uploaded, request: while it is uploaded}
  #list = byId("attached");
  #input = byId("attach-files");
  #onChange;

  // onChange: called with whether there are files.
  constructor(onChange) {
    this.#onChange = onChange;
    if (!this.#input) return; // the installation accepts no files
    const button = byId("attach");
    button.hidden = false;
    button.addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      this.#add([...this.#input.files]);
      this.#input.value = "";
    });
    byId("message").addEventListener("paste", (event) => this.#take(event, event.clipboardData));
    const page = document.querySelector(".main");
    page.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      page.dataset.drop = "";
    });
    for (const name of ["dragleave", "drop"]) page.addEventListener(name, () => delete page.dataset.drop);
    page.addEventListener("drop", (event) => this.#take(event, event.dataTransfer));
  }

  get some() {
    return this.#files.length > 0;
  }

  // Whether all files are uploaded. If not, say so.
  areReady() {
    const isReady = this.#files.every(({ id }) => id);
    if (!isReady) note("A file is still being uploaded. Wait for it, or remove it.");
    return isReady;
  }

  // Return the files for a message that is sent now, and forget them.
  take() {
    const taken = this.#files;
    this.#show([]);
    return taken;
  }

  // Show the files of a message that is edited again: {id, name, size}.
  restore(files) {
    const entries = files.map((file) => this.#entry(file));
    for (const { row } of entries) row.querySelector("progress").hidden = true;
    this.#show([...this.#files, ...entries]);
  }

  #take(event, { files }) {
    if (!files.length) return; // text is the browser's
    event.preventDefault();
    this.#add([...files]);
  }

  #add(files) {
    const { most, largest } = this.#input.dataset;
    note("");
    for (const file of files) {
      if (this.#files.length >= Number(most)) {
        note(`A message may have at most ${most} files. ${file.name} was not added.`);
        break;
      }
      if (file.size > Number(largest)) {
        note(`${file.name} is too large: it has ${size(file.size)}, and ${size(Number(largest))} are allowed.`);
      } else {
        this.#upload(file);
      }
    }
    byId("message").focus();
  }

  // Return the file with a row for the list.
  #entry(file) {
    const row = byId("attached-pattern").content.firstElementChild.cloneNode(true);
    const entry = { ...file, row };
    row.querySelector("bdi").textContent = entry.name;
    row.querySelector("small").textContent = entry.size;
    const remove = row.querySelector("button");
    remove.setAttribute("aria-label", `Remove ${entry.name}`);
    remove.title = remove.getAttribute("aria-label");
    remove.addEventListener("click", () => this.#remove(entry));
    return entry;
  }

  // The server decides about the type, by the bytes.
  #upload(file) {
    const request = new XMLHttpRequest();
    const entry = this.#entry({ name: file.name, size: size(file.size), request });
    const { row } = entry;
    request.upload.addEventListener("progress", ({ loaded, total }) => (row.querySelector("progress").value = loaded / total));
    request.addEventListener("load", () => this.#uploaded(entry));
    request.addEventListener("error", () => this.#failed(entry, "The server cannot be reached. Attach it again."));
    request.open("POST", `${UPLOADS}?filename=${encodeURIComponent(file.name)}`);
    setHeaders(request);
    request.send(file);
    this.#show([...this.#files, entry]);
  }

  #uploaded(entry) {
    const { status, responseText } = entry.request;
    const answer = parsed(responseText);
    if (status !== 200 || !answer) {
      this.#failed(entry, status === 413 ? "It is too large." : (answer?.error ?? `The server refused it (${status}).`));
      return;
    }
    const { attachmentId, pages, omittedBecause } = answer.data;
    entry.id = attachmentId;
    entry.size = [entry.size, pages].filter(Boolean).join(" · ");
    entry.row.querySelector("small").textContent = entry.size;
    if (omittedBecause) note(`The model cannot read ${entry.name}: ${omittedBecause}.`);
    delete entry.request;
    entry.row.querySelector("progress").hidden = true;
  }

  #failed(entry, problem) {
    this.#show(this.#files.filter((other) => other !== entry));
    note(`${entry.name} was not added. ${problem}`);
  }

  #remove(entry) {
    entry.request?.abort();
    if (entry.id) {
      const request = new XMLHttpRequest();
      request.open("DELETE", `${UPLOADS}/${entry.id}`);
      setHeaders(request);
      request.send(); // what stays is deleted after a day
    }
    this.#show(this.#files.filter((other) => other !== entry));
    byId("message").focus();
  }

  #show(files) {
    this.#files = files;
    this.#list.replaceChildren(...files.map(({ row }) => row));
    this.#list.hidden = !this.some;
    this.#onChange(this.some);
  }
}

// Show the files of a message that is being sent.
export function listFiles(list, files) {
  list.hidden = !files.length;
  list.replaceChildren(
    ...files.map(({ name }) => {
      const item = document.createElement("li");
      item.textContent = name;
      return item;
    }),
  );
}

function setHeaders(request) {
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.setRequestHeader("X-CSRFToken", document.querySelector("meta[name=csrf-token]").content);
  request.setRequestHeader("X-Request-Id", newId());
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function note(text) {
  byId("note").textContent = text;
}

function size(count) {
  if (count < 1000) return `${count} bytes`;
  return count < 999_500 ? `${(count / 1000).toFixed(count < 9950 ? 1 : 0)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

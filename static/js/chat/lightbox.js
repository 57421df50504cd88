// Shows an image over the page: arrows move through the images of the page, Esc closes. Loaded with the first image.
import { loadStyles } from "./styles.js";

const byId = (id) => document.getElementById(id);
let dialog = null;
let images = [];
let place = 0;

export async function openImage(opener) {
  dialog ??= build();
  await loadStyles("lightbox.css");
  images = [...document.querySelectorAll(".open-image")].filter((image) => image.checkVisibility());
  place = Math.max(0, images.indexOf(opener));
  show();
  dialog.showModal();
}

function show() {
  const { dataset } = images[place];
  const picture = byId("lightbox-image");
  picture.src = dataset.src;
  picture.alt = dataset.name;
  byId("lightbox-name").textContent = images.length > 1 ? `${dataset.name} · ${place + 1} of ${images.length}` : dataset.name;
  byId("lightbox-download").href = dataset.src;
  dialog.toggleAttribute("data-whole", false);
  for (const id of ["lightbox-before", "lightbox-after"]) byId(id).hidden = images.length < 2;
}

function move(by) {
  place = (place + by + images.length) % images.length;
  show();
}

function build() {
  const made = byId("lightbox-pattern").content.firstElementChild.cloneNode(true);
  document.body.append(made);
  byId("lightbox-before").addEventListener("click", () => move(-1));
  byId("lightbox-after").addEventListener("click", () => move(1));
  byId("lightbox-close").addEventListener("click", () => made.close());
  byId("lightbox-zoom").addEventListener("click", () => made.toggleAttribute("data-whole"));
  made.addEventListener("click", ({ target }) => target === made && made.close());
  made.addEventListener("keydown", ({ key }) => {
    if (key === "ArrowLeft") move(-1);
    if (key === "ArrowRight") move(1);
  });
  return made;
}

// Loads a stylesheet that only a part of the page needs, once. Resolves when it applies.

const loaded = new Map();

export function loadStyles(name) {
  if (!loaded.has(name)) loaded.set(name, load(new URL(`../../css/${name}`, import.meta.url).href));
  return loaded.get(name);
}

function load(href) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve) => {
    link.onload = link.onerror = resolve;
    document.head.append(link);
  });
}

// Files of messages: what is sent of them, and what is loaded.

const MEDIA = ["image", "audio", "video"];

// Return a file as a part of a message of AG-UI.
export async function partOf(file) {
  const type = MEDIA.find((kind) => file.type.startsWith(`${kind}/`)) ?? "document";
  const address = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  const source = { type: "data", value: address.slice(address.indexOf(",") + 1), mimeType: file.type || "application/octet-stream" };
  return { type, source, metadata: { filename: file.name } };
}

// Have the browser store a file.
export function download(blob, name) {
  const link = document.createElement("a");
  Object.assign(link, { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The picture of the agent. It is fetched and drawn, so that the site's policy needs no permission for pictures.

const MOST_BYTES = 1_000_000;
const TIME = 20_000; // milliseconds

// Draw a picture into a canvas, as large as fits, and show it. Without one the canvas stays hidden.
export async function drawPicture(canvas, address) {
  canvas.hidden = true;
  canvas.dataset.address = address;
  if (!address) return;
  try {
    const response = await fetch(address, { credentials: "omit", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(TIME) });
    const blob = await response.blob();
    if (!response.ok || blob.size > MOST_BYTES) return;
    const picture = await createImageBitmap(blob);
    if (canvas.dataset.address !== address) return; // another one was set meanwhile
    const scale = Math.max(canvas.width / picture.width, canvas.height / picture.height);
    const [width, height] = [picture.width * scale, picture.height * scale];
    const brush = canvas.getContext("2d");
    brush.clearRect(0, 0, canvas.width, canvas.height);
    brush.drawImage(picture, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
    picture.close();
    canvas.hidden = false;
  } catch {
    // It cannot be reached, or is no picture.
  }
}

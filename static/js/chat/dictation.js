// Dictation: records a voice with the microphone, and puts its words into the message box.

const TYPES = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus"];
const MOST_MS = 300_000;

let recorder = null;
let timer = 0;

// The button of the composer. announce: sends a text to screen readers.
export function setUpDictation(announce) {
  const agents = document.getElementById("agent");
  const button = document.getElementById("dictate");
  const show = () => {
    button.hidden = !agents.selectedOptions[0]?.hasAttribute("data-hears");
  };
  agents.addEventListener("change", show);
  show();
  button.addEventListener("click", () => (recorder ? stop() : start(button, agents, announce)));
}

async function start(button, agents, announce) {
  note("");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    note("The microphone cannot be used. Allow it for this page in your browser.");
    return;
  }
  const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
  recorder = new MediaRecorder(stream, mimeType ? { mimeType } : {});
  const pieces = [];
  recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
  recorder.addEventListener("stop", async () => {
    clearTimeout(timer);
    const { mimeType: type } = recorder;
    recorder = null;
    for (const track of stream.getTracks()) track.stop();
    mark(button, false);
    button.disabled = true;
    try {
      insert(await transcribe(new Blob(pieces, { type }), agents.value));
      announce("The dictated text is in the message box.");
    } catch (error) {
      note(error.message);
    }
    button.disabled = false;
  });
  recorder.start();
  timer = setTimeout(stop, MOST_MS);
  mark(button, true);
  announce("Recording.");
}

function note(text) {
  document.getElementById("note").textContent = text;
}

function stop() {
  if (recorder?.state === "recording") recorder.stop();
}

function mark(button, isRecording) {
  button.setAttribute("aria-pressed", String(isRecording));
  button.title = isRecording ? "Stop recording" : "Dictate";
}

async function transcribe(recording, agent) {
  const response = await fetch(`/api/transcriptions?agentId=${encodeURIComponent(agent)}`, {
    method: "POST",
    body: recording,
    headers: { "X-CSRFToken": document.querySelector("meta[name=csrf-token]").content },
  });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Error(answer?.error ?? "The recording could not be transcribed. Try again.");
  const text = answer.data.text.trim();
  if (!text) throw new Error("No words were heard. Try again.");
  return text;
}

// Put the text where the cursor is, apart from the words beside it.
function insert(text) {
  const box = document.getElementById("message");
  const before = box.value.slice(0, box.selectionStart);
  box.setRangeText(before && !/\s$/.test(before) ? ` ${text}` : text, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.focus();
}

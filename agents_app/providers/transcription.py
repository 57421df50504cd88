"""Requests and responses of `/audio/transcriptions`. Pure."""

import json
from typing import Any

from agents_app.providers.text_repair import repair
from agents_app.providers.token_usage import read_usage
from agents_app.types import LoadedPart
from agents_app.types.transcriptions import Transcription, TranscriptionOptions

# Servers know the format by the name of the file.
_ENDINGS = {
    "audio/aac": "aac",
    "audio/amr": "amr",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/webm": "webm",
}
_DETAILS = ("duration", "language", "segments", "words")


def name_of(audio: LoadedPart) -> str:
    """Return a name for the file with the ending of its format. The sender's own name is not sent."""
    return f"audio.{_ENDINGS.get(audio.mime_type, 'bin')}"


def encode(options: TranscriptionOptions) -> dict[str, Any]:
    """Return the fields of a request besides the file and the model: only those that are wanted."""
    fields = {"language": options.language, "prompt": options.prompt, "temperature": options.temperature}
    wanted: dict[str, Any] = {name: value for name, value in fields.items() if value not in ("", None)}
    if options.is_verbose:
        wanted["response_format"] = "verbose_json"
        if options.granularities:
            wanted["timestamp_granularities"] = list(options.granularities)
    return wanted


def read(text: str) -> Transcription:
    """Return the body of a response as one: its text, and its tokens if the server counts them.

    Raises ValueError, TypeError or KeyError for another body.
    """
    found = json.loads(text, parse_constant=lambda name: None)
    if not isinstance(found["text"], str):
        raise TypeError("the text is not a string")
    details = {name: _repaired(found[name]) for name in _DETAILS if found.get(name) is not None}
    return Transcription(repair(found["text"]), usage=read_usage(found.get("usage")), details=details)


def _repaired(value: Any) -> Any:
    """Return a JSON value whose texts can be sent on."""
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, dict):
        return {repair(key): _repaired(item) for key, item in value.items()}
    return [_repaired(item) for item in value] if isinstance(value, list) else value

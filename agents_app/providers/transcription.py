"""Requests and responses of `/audio/transcriptions`. Pure."""

import json

from agents_app.providers.text_repair import repair
from agents_app.providers.token_usage import read_usage
from agents_app.types import LoadedPart, ModelResponse

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


def name_of(audio: LoadedPart) -> str:
    """Return a name for the file with the ending of its format. The sender's own name is not sent."""
    return f"audio.{_ENDINGS.get(audio.mime_type, 'bin')}"


def read(text: str) -> ModelResponse:
    """Return the body of a response as one: its text, and its tokens if the server counts them.

    Raises ValueError, TypeError or KeyError for another body.
    """
    found = json.loads(text)
    if not isinstance(found["text"], str):
        raise TypeError("the text is not a string")
    return ModelResponse(text=repair(found["text"]), usage=read_usage(found.get("usage")))

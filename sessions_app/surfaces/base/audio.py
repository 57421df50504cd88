"""Audio files of requests."""

from agents_app.types import LoadedPart
from sessions_app.attachments import model_text


def audio_part(data: bytes) -> LoadedPart | None:
    """Return a file as audio, by the type that its bytes have; None for one that is no audio of a known format."""
    mime_type = model_text.media_type_of("audio", model_text.read(data).mime_type)
    return LoadedPart("audio", mime_type, "", len(data), "", "", data=data) if mime_type.startswith("audio/") else None

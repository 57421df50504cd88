"""Audio that becomes text for a client, rather than for a run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.types.model_calls import ModelResponse


@dataclass(frozen=True)
class TranscriptionOptions:
    """Wishes that a server may ignore or refuse.

    language: ISO-639-1, of the audio; empty: the server finds out.
    prompt: a text in the style of the audio.
    is_verbose: times are wanted, of the units in `granularities` (segment, word).
    """

    language: str = ""
    prompt: str = ""
    temperature: float | None = None
    is_verbose: bool = False
    granularities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transcription(ModelResponse):
    """The words of an audio file. details: what the server says besides, such as duration, language and segments."""

    details: Mapping[str, Any] = field(default_factory=dict)


PLAIN = TranscriptionOptions()

"""Requests for transcriptions, checked, and their answers."""

import json
from dataclasses import dataclass
from typing import Any

from agents_app.runs.audio_length import seconds_of
from agents_app.types import LoadedPart
from agents_app.types.transcriptions import Transcription, TranscriptionOptions
from sessions_app.surfaces.base.audio import audio_part
from sessions_app.surfaces.base.forms import Form, file_of
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.openai.requests import LONGEST_TEXT

FORMATS = ("json", "text", "verbose_json")
GRANULARITIES = ("segment", "word")
_LONGEST_LANGUAGE = 20


@dataclass(frozen=True)
class TranscriptionRequest:
    """A request.

    model: an agent's id, or the name of a model.
    answer_format: one of FORMATS.
    """

    model: str
    audio: LoadedPart
    answer_format: str
    options: TranscriptionOptions


def read(form: Form) -> TranscriptionRequest:
    """Return the request of a form. Raises InvalidInput."""
    model, wanted = form.text("model"), form.text("response_format") or "json"
    if not model:
        message = "model must be the id of an agent, or the name of the transcription model of its provider."
        raise invalid_param(message, "model", "missing_required_parameter")
    if wanted not in FORMATS:
        message = f"response_format must be one of {', '.join(FORMATS)}."
        raise invalid_param(message, "response_format", "unsupported_value")
    if form.text("stream") == "true":
        raise invalid_param("Transcriptions are not streamed here.", "stream", "unsupported_parameter")
    return TranscriptionRequest(model, _audio(form), wanted, _options(form, is_verbose=wanted == "verbose_json"))


def whole(request: TranscriptionRequest, found: Transcription) -> tuple[bytes, str]:
    """Return the body of the answer and its media type."""
    if request.answer_format == "text":
        return f"{found.text}\n".encode("utf-8", "replace"), "text/plain; charset=utf-8"
    answer: dict[str, Any] = {"text": found.text, **_usage(request, found)}
    if request.answer_format == "verbose_json":
        known = {"language": request.options.language, "duration": seconds_of(request.audio.data) or 0.0}
        answer = {"task": "transcribe", **known, **found.details, **answer}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"), "application/json"


def _usage(request: TranscriptionRequest, found: Transcription) -> dict[str, Any]:
    """Return the field `usage`: tokens if the server counts them, else the length of the audio if it is known."""
    usage = found.usage
    if usage.input_tokens or usage.output_tokens:
        counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return {"usage": {"type": "tokens", **counts, "total_tokens": sum(counts.values())}}
    seconds = seconds_of(request.audio.data)
    return {} if seconds is None else {"usage": {"type": "duration", "seconds": round(seconds, 2)}}


def _audio(form: Form) -> LoadedPart:
    """Return the file. Its type is read from its bytes. Raises InvalidInput."""
    audio = audio_part(file_of(form).data)
    if audio is None:
        raise invalid_param("The file must be audio of a known format.", "file", "unsupported_file_type")
    return audio


def _options(form: Form, *, is_verbose: bool) -> TranscriptionOptions:
    language, prompt, temperature = form.text("language"), form.text("prompt"), form.text("temperature")
    if len(language) > _LONGEST_LANGUAGE:
        raise invalid_param("language must be a code such as en.", "language")
    if len(prompt) > LONGEST_TEXT:
        raise invalid_param(f"prompt must have at most {LONGEST_TEXT:,} characters.", "prompt")
    units = form.fields.get("timestamp_granularities[]") or form.fields.get("timestamp_granularities") or ()
    if not set(units) <= set(GRANULARITIES) or (units and not is_verbose):
        message = f"timestamp_granularities takes {' and '.join(GRANULARITIES)}, with the response_format verbose_json."
        raise invalid_param(message, "timestamp_granularities")
    return TranscriptionOptions(language, prompt, _temperature(temperature), is_verbose, tuple(dict.fromkeys(units)))


def _temperature(given: str) -> float | None:
    if not given:
        return None
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise invalid_param("temperature must be a number from 0 to 1.", "temperature")
    return value

"""The `/audio/transcriptions` of the fake model server: reads the form, and checks it as OpenAI's server does."""

import re
from email.parser import BytesParser
from typing import Any

from tests.fakes.directives import Directives
from tests.fakes.http_protocol import HttpRequest

_ENDINGS = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "oga", "ogg", "wav", "webm")
_LARGEST = 25 * 1024 * 1024


def read_form(request: HttpRequest) -> dict[str, Any]:
    """Return the fields of a form; a file is {filename, type, data}."""
    head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    fields: dict[str, Any] = {}
    for part in BytesParser().parsebytes(head + request.body).get_payload():
        data, filename = part.get_payload(decode=True), part.get_filename()
        name = str(part.get_param("name", header="content-disposition"))
        file = {"filename": filename, "type": part.get_content_type(), "data": data}
        fields[name] = file if filename else data.decode()
    return fields


def problem_of(form: dict[str, Any]) -> str:
    """Return why the original refuses a form; empty if it does not."""
    if not form.get("model"):
        return "you must provide a model parameter"
    file = form.get("file")
    if not isinstance(file, dict) or not file["data"]:
        return "Audio file is too short. Minimum audio length is 0.1 seconds."
    if file["filename"].rpartition(".")[2] not in _ENDINGS:
        return f"Invalid file format. Supported formats: {sorted(_ENDINGS)}"
    return "Maximum content size limit exceeded" if len(file["data"]) > _LARGEST else ""


def spoken_directives(form: dict[str, Any]) -> str:
    """Return the directives that stand in the audio, such as `[[text="Hello"]]`."""
    file = form.get("file")
    found = re.search(rb"\[\[.*?\]\]", file["data"], re.DOTALL) if isinstance(file, dict) else None
    return found[0].decode() if found else ""


def answer(form: dict[str, Any], directives: Directives) -> dict[str, Any]:
    """Return a transcription with its tokens, or its seconds if `nousage` is given, and with times if wanted."""
    tokens = {"type": "tokens", "input_tokens": 30, "output_tokens": 6, "total_tokens": 36}
    usage = {"type": "duration", "seconds": 3} if directives.nousage else tokens
    segment = {"id": 0, "start": 0.0, "end": 3.0, "text": directives.text}
    times = {"task": "transcribe", "language": "english", "duration": 3.0, "segments": [segment]}
    return {**(times if form.get("response_format") == "verbose_json" else {}), "text": directives.text, "usage": usage}

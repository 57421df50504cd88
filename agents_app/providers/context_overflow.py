"""Recognises, in the error of a model server, that a request is longer than the context of its model.

Pure. Servers have a code for it, or only an English sentence, with or without the sizes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CODES = {
    "context_length_exceeded",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
    "contextwindowexceedederror",
    "string_above_max_length",
    "request_too_large",
    "prompt_too_long",
    "too_many_prompt_tokens",
}
_MAX_CHARACTERS = 4000
_NUMBER = r"\d[\d,]*"
# Groups: limit | request | input and output, which make up the request.
_SIZES = [
    re.compile(pattern.replace("<N>", _NUMBER), re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\((?P<output><N>) > (?P<limit><N>) - (?P<input><N>)\)",
        r"(?P<input><N>) \+ (?P<output><N>) > (?P<limit><N>)",
        r"(?P<request><N>) tokens > (?P<limit><N>) maximum",
        r"must be <= (?P<limit><N>)\. Given: (?P<input><N>) `inputs` tokens and (?P<output><N>)",
        r"passed (?P<input><N>) input tokens and requested (?P<output><N>) output"
        r".{0,60}? length is only (?P<limit><N>)",
        r"maximum (?:context|prompt|model) length (?:is|of) (?P<limit><N>)\b.{0,60}?"
        r"(?:requested|resulted in|contains|has)(?: about| a total of| at least)? (?P<request><N>)",
        r"\((?:length )?(?P<request><N>)(?: tokens)?\) (?:exceeds?|is longer than) .{0,60}?\b(?P<limit><N>)",
        r"contains (?P<request><N>) tokens.{0,60}? too large for model with (?P<limit><N>)",
        r"token count of (?P<request><N>) exceeds the limit of (?P<limit><N>)",
        r"token limit: (?P<limit><N>)(?: \(requested: (?P<request><N>)\))?",
        r"cannot exceed (?P<limit><N>).{0,20}? received (?P<request><N>)",
        r"Request too large .*?Limit:? (?P<limit><N>), Requested:? (?P<request><N>)",
        r"maximum (?:context|prompt|model) length (?:is|of) (?P<limit><N>)",
    )
]
_PHRASES = re.compile(
    r"(?:maximum|model's|available|model) (?:context|prompt|model) (?:length|size|window)"
    r"|(?:exceed\w*|longer than|greater than|overflows?) the (?:available |current )?context"
    r"|context (?:length|window|size) (?:is |was )?exceed"
    r"|context window exceeds limit"
    r"|(?:prompt|input) is (?:too long|longer than the context)"
    r"|prompt too long|too many input tokens"
    r"|input token count .{0,40}exceeds"
    r"|exceeded model token limit"
    r"|exceeds? maximum context"
    r"|Request too large for ",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Overflow:
    """The sizes that a server states, in tokens; None for one that it does not state.

    limit_tokens: the context of the model.
    request_tokens: the input with the output that the request reserves.
    """

    limit_tokens: int | None = None
    request_tokens: int | None = None


NO_SIZES = Overflow()


def find_overflow(error: Mapping[str, Any], text: str) -> Overflow | None:
    """Return the sizes if an error means that the request is too long; None for any other error.

    error: the error object, empty if there is none.
    text: the message of the server.
    """
    text = text[:_MAX_CHARACTERS]
    sizes = _sizes_of(error) or _sizes_in(text)
    codes = {str(error[name]).lower() for name in ("code", "type", "status") if error.get(name)}
    if codes & _CODES or sizes or _PHRASES.search(text):
        return sizes or NO_SIZES
    return None


def _sizes_of(error: Mapping[str, Any]) -> Overflow | None:
    """Return the sizes of an error object of llama.cpp."""
    limit, request = error.get("n_ctx"), error.get("n_prompt_tokens")
    return Overflow(limit, request) if isinstance(limit, int) and isinstance(request, int) else None


def _sizes_in(text: str) -> Overflow | None:
    for pattern in _SIZES:
        if match := pattern.search(text):
            found = {name: int(size.replace(",", "")) for name, size in match.groupdict().items() if size}
            request = found.get("request") or found.get("input", 0) + found.get("output", 0)
            return Overflow(found["limit"], request or None)
    return None

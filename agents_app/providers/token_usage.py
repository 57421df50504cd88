"""Reads the token counts of model servers, which name, place and add them differently. Pure."""

from collections.abc import Mapping
from typing import Any

from agents_app.types import Usage

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
)
_AUDIO = (("prompt_tokens_details", "audio_tokens"),)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),
)


def read_usage(value: Any) -> Usage:
    """Return the counts of a `usage` object of Chat Completions or Responses; zeros for what is missing or invalid.

    Some servers, among them Gemini's and xAI's, count reasoning in the total only: it is added to the output. Mistral's
    count the tokens of audio so, which belong to the input.
    """
    if not isinstance(value, Mapping):
        return Usage()
    input_tokens = max(_count(value.get(name)) for name in _INPUT)
    output_tokens = max(_count(value.get(name)) for name in _OUTPUT)
    reasoning = _first(value, _REASONING)
    uncounted = _count(value.get("total_tokens")) - input_tokens - output_tokens
    if "prompt_audio_seconds" in value and 0 < (audio := _first(value, _AUDIO)) <= uncounted:
        input_tokens, uncounted = input_tokens + audio, uncounted - audio
    if uncounted > 0:
        output_tokens += uncounted
        reasoning = max(reasoning, uncounted)
    cached = min(_first(value, _CACHED), input_tokens)
    return Usage(input_tokens, output_tokens, cached, min(reasoning, output_tokens))


def merge(earlier: Usage, later: Usage) -> Usage:
    """Return the usage of a stream that has sent it more than once.

    Counts only grow: servers repeat them with each chunk, or send the input early and the output late.
    """
    return Usage(
        max(earlier.input_tokens, later.input_tokens),
        max(earlier.output_tokens, later.output_tokens),
        max(earlier.cached_input_tokens, later.cached_input_tokens),
        max(earlier.reasoning_tokens, later.reasoning_tokens),
    )


def _first(value: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> int:
    """Return the first count above zero at one of the paths."""
    for path in paths:
        found: Any = value
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if count := _count(found):
            return count
    return 0


def _count(value: Any) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if is_count else 0

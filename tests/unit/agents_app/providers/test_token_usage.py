"""Token counts as each server sends them."""

import json
from typing import Any

import pytest

from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint
from agents_app.providers.token_usage import read_usage
from agents_app.types import Usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}, Usage(9, 4)),
        (
            {
                "prompt_tokens": 900,
                "completion_tokens": 40,
                "total_tokens": 940,
                "prompt_tokens_details": {"cached_tokens": 800, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            Usage(900, 40, 800, 30),
        ),
        (
            {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 800},
                "output_tokens": 40,
                "output_tokens_details": {"reasoning_tokens": 30},
                "total_tokens": 940,
            },
            Usage(900, 40, 800, 30),
        ),
        ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 125}, Usage(20, 105, 0, 100)),  # Gemini
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 5,
                "total_tokens": 125,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(20, 105, 0, 100),  # xAI
        ),
        (
            {"prompt_tokens": 50, "completion_tokens": 5, "prompt_cache_hit_tokens": 48, "prompt_cache_miss_tokens": 2},
            Usage(50, 5, 48),  # DeepSeek
        ),
        ({"prompt_tokens": 50, "completion_tokens": 5, "cached_tokens": 48}, Usage(50, 5, 48)),  # Moonshot
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(5, 2)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 99, "reasoning_tokens": 99}, Usage(5, 2, 5, 2)),
        ({"prompt_tokens": -5, "completion_tokens": "2", "prompt_tokens_details": [1]}, Usage()),
        ({"prompt_tokens": 2**40, "completion_tokens": True}, Usage()),
        ("many", Usage()),
        (None, Usage()),
    ],
)
def test_usage_in_every_form(usage: Any, expected: Usage) -> None:
    assert read_usage(usage) == expected


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": []}, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}],
        [{"usage": {"prompt_tokens": 7, "completion_tokens": 0}}, {"usage": {"completion_tokens": 3}}],
        [{"usage": {"prompt_tokens": 7, "completion_tokens": n}, "choices": []} for n in range(4)],
        [{"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, {"usage": None}, {"usage": {}}],
        [{"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]}],
        [{"x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, "choices": []}],
    ],
    ids=["late", "in halves", "repeated", "early", "in the choice", "Groq"],
)
def test_usage_wherever_a_stream_has_it(chunks: list[dict[str, Any]]) -> None:
    assembly = Assembly(Endpoint("http://models.example/v1", "big-1"))
    for chunk in [*chunks, {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}]:
        assembly.add(json.dumps(chunk).encode())
    assert assembly.finish()[1].usage == Usage(7, 3)


def test_usages_are_added_field_by_field() -> None:
    assert Usage(1, 2, 1, 1) + Usage(10, 20, 5, 6) == Usage(11, 22, 6, 7)

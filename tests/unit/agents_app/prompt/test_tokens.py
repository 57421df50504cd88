import sys

import pytest

from agents_app.prompt import tokens
from agents_app.types import Message
from tools_app.types import ToolCall

ENGLISH = "The quick brown fox jumps over the lazy dog, and nobody asks why it does so. "
CHINESE = "系统会把每一条消息都保存下来，然后交给模型回答。"
CODE = "    def count(self, text: str) -> int:\n        return len(text.split())\n"

# The numbers of real vocabularies, measured once: (text, family, tokens).
MEASURED = [
    (ENGLISH * 20, "o200k", 361),
    (ENGLISH * 20, "claude", 361),
    (ENGLISH * 20, "sentencepiece", 401),
    (CHINESE * 20, "o200k", 320),
    (CHINESE * 20, "cl100k", 460),
    (CODE * 20, "qwen", 360),
    (CODE * 20, "claude", 421),
]


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o-mini", "o200k"),
        ("gpt-4.1", "o200k"),
        ("gpt-4", "cl100k"),
        ("gpt-3.5-turbo", "cl100k"),
        ("openai/o3", "o200k"),
        ("claude-sonnet-4-5", "claude"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek"),
        ("qwen3:8b", "qwen"),
        ("meta-llama/Llama-3.1-8B", "cl100k"),
        ("Mixtral-8x7B", "sentencepiece"),
        ("mistral-large", "tekken"),
        ("gemini-2.5-pro", "general"),
        ("", "general"),
    ],
)
def test_the_family_follows_from_the_name_of_the_model(model: str, family: str) -> None:
    assert tokens.family_of(model) == family


@pytest.mark.parametrize(("text", "family", "measured"), MEASURED)
def test_estimates_are_near_the_numbers_of_real_vocabularies(text: str, family: str, measured: int) -> None:
    assert tokens.count(text, family) == pytest.approx(measured, rel=0.25)


def test_an_empty_text_has_no_tokens_and_any_other_has_one() -> None:
    assert tokens.count("") == 0
    assert tokens.count(" ") == tokens.count("\ud800") == 1
    assert tokens.count("😀") >= 2


def test_a_message_counts_its_calls() -> None:
    plain = tokens.count_message(Message("assistant", "Hello."))
    assert tokens.count_message(Message("assistant", "Hello.", (ToolCall("1", "echo", '{"text": "x"}'),))) > plain + 4
    assert tokens.count_messages([Message("user", "a"), Message("user", "b")]) == 2 * (tokens.PER_MESSAGE + 1)


def test_reported_usage_corrects_estimates_within_limits() -> None:
    assert tokens.ratio_of(120, 100) == 1.2
    assert tokens.ratio_of(0, 100) == tokens.ratio_of(100, 0) == 1.0
    assert tokens.ratio_of(1, 100) == 0.5
    assert tokens.ratio_of(1000, 100) == 2.0


def test_a_long_text_is_counted_in_few_passes() -> None:
    """Counted in calls, not timed: loops over characters would make a call for each."""
    calls = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        tokens.count(ENGLISH * 1000)
    finally:
        sys.setprofile(None)
    assert calls < 50

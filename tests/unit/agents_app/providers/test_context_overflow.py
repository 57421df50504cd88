"""Errors of servers whose model has too small a context for the request, as each of them phrases it."""

import json
from typing import Any

import pytest

from agents_app.providers import errors
from agents_app.providers.base import ProviderError
from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint

ENDPOINT = Endpoint("http://models.example/v1", "big-1")
OPENAI = "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens."
LLAMA_CPP = {
    "code": 400,
    "message": "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 9412,
    "n_ctx": 8192,
}
GEMINI = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
STATED = [
    ("OpenAI", OPENAI, 8192, 8545),
    (
        "OpenAI, with the answer",
        "This model's maximum context length is 8192 tokens, however you requested 8300 tokens (300 in your prompt).",
        8192,
        8300,
    ),
    (
        "vLLM",
        "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens (2000 in the messages, "
        "100 in the completion). Please reduce the length of the messages or completion.",
        2048,
        2100,
    ),
    (
        "vLLM 0.32, as recorded",
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, "
        "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=2049)",
        2048,
        2049,
    ),
    (
        "vLLM, by the answer's length",
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
        "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        4096,
        4104,
    ),
    (
        "vLLM, before generation",
        "The decoder prompt (length 8357) is longer than the maximum model length of 8192. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        8192,
        8357,
    ),
    (
        "vLLM, newer",
        "You passed 2049 input tokens and requested 100 output tokens. However, the model's context length is only "
        "2048 tokens, resulting in a maximum input length of 1948 tokens.",
        2048,
        2149,
    ),
    ("SGLang", "The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096, 5000),
    ("llama-cpp-python", "Requested tokens (5000) exceed context window of 4096", 4096, 5000),
    ("Ollama", "input length (5000 tokens) exceeds the model's maximum context length (4096 tokens)", 4096, 5000),
    ("Ollama, without sizes", "the input length exceeds the context length", None, None),
    (
        "Ollama, without shifting",
        "the prompt is longer than the context length currently available to the model; shorten the prompt",
        None,
        None,
    ),
    ("Anthropic", "prompt is too long: 213462 tokens > 200000 maximum", 200_000, 213_462),
    (
        "Anthropic, with the answer",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        200_000,
        210_000,
    ),
    ("Bedrock", "Input is too long for requested model.", None, None),
    ("Gemini", GEMINI, 1_048_576, 1_200_293),
    ("Responses", "Your input exceeds the context window of this model. Please adjust your input.", None, None),
    (
        "OpenRouter",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 152345 tokens (152000 "
        "of text input, 345 of tool input).",
        131_072,
        152_345,
    ),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
    (
        "Mistral",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
        40_000,
    ),
    ("Moonshot", "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", 8192, 9000),
    ("Copilot", "prompt token count of 70000 exceeds the limit of 64000", 64_000, 70_000),
    (
        "Groq",
        "Request too large for model `small` on tokens per minute (TPM): Limit 6,000, Requested 9,000, please reduce",
        6000,
        9000,
    ),
    (
        "TGI",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and "
        "512 `max_new_tokens`",
        8193,
        9512,
    ),
]


@pytest.mark.parametrize(
    ("text", "limit", "request_tokens"), [row[1:] for row in STATED], ids=[row[0] for row in STATED]
)
@pytest.mark.parametrize("status", [400, 500])
def test_the_sentence_of_each_server_is_recognised(
    text: str, limit: int | None, request_tokens: int | None, status: int
) -> None:
    error = errors.of_status(ENDPOINT, status, {"message": text, "type": "invalid_request_error", "code": None})
    assert (error.code, error.retryable) == ("model_context_overflow", False)
    assert (error.limit_tokens, error.request_tokens) == (limit, request_tokens)
    assert errors.of_error_object({"message": text}, ENDPOINT).limit_tokens == limit


@pytest.mark.parametrize(
    "body",
    [
        {"error": LLAMA_CPP},
        LLAMA_CPP,
        [{"error": {"code": 400, "message": GEMINI.replace("1048576", "8192"), "status": "INVALID_ARGUMENT"}}],
        {"object": "error", "message": OPENAI, "type": "BadRequestError", "code": 400},
        {"detail": OPENAI},
        {"error": OPENAI},
        {"error": {"message": json.dumps({"error": {"message": OPENAI}}), "code": 400}},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": OPENAI}}},
        {"detail": "too long", "error": {"error": LLAMA_CPP}},
        OPENAI,
    ],
    ids=[
        "llama.cpp",
        "unwrapped",
        "in a list",
        "vLLM",
        "detail",
        "plain error",
        "in a gateway's text",
        "behind a gateway",
        "twice",
        "text",
    ],
)
def test_the_sizes_are_found_in_every_form_of_the_body(body: object) -> None:
    assert errors.of_status(ENDPOINT, 400, body).limit_tokens == 8192


def test_the_message_says_the_sizes_and_what_to_do() -> None:
    message = errors.of_status(ENDPOINT, 400, {"error": LLAMA_CPP}).message
    assert "takes 8,192 tokens, and the request has 9,412" in message
    assert "start a new session" in message and "larger context" in message


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."}),
        (400, {"message": "Invalid value for 'messages[3].content': expected a string."}),
        (429, {"message": "Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000."}),
        (401, {"message": "Your key is too long: 100 tokens > 64 maximum"}),
        (500, {"message": "context canceled"}),
        (400, {"message": "n_ctx must be positive", "n_ctx": "8192", "n_prompt_tokens": None}),
    ],
)
def test_other_errors_are_not_mistaken_for_it(status: int, error: dict[str, Any]) -> None:
    assert errors.of_status(ENDPOINT, status, error).code != "model_context_overflow"


def _finished(*deltas: dict[str, Any], reason: str, limits_output: bool = False) -> str:
    assembly = Assembly(ENDPOINT, limits_output=limits_output)
    for delta in deltas:
        assembly.add(json.dumps({"choices": [{"delta": delta}]}).encode())
    assembly.add(json.dumps({"choices": [{"delta": {}, "finish_reason": reason}]}).encode())
    return assembly.finish()[1].finish_reason


@pytest.mark.parametrize("reason", ["length", "model_context_window_exceeded"])
def test_an_answer_without_room_is_an_overflow(reason: str) -> None:
    with pytest.raises(ProviderError) as caught:
        _finished(reason=reason)
    assert caught.value.code == "model_context_overflow"
    assert _finished({"content": "Half an"}, reason=reason) == "length"


def test_a_code_alone_is_recognised() -> None:
    body = {"message": "All messages together are too long.", "type": "too_many_prompt_tokens", "code": 400}
    assert errors.of_status(ENDPOINT, 400, {"error": body}).code == "model_context_overflow"


def test_an_empty_answer_at_its_own_limit_is_no_overflow() -> None:
    assert _finished(reason="length", limits_output=True) == "length"
    assert _finished({"reasoning_content": "Hm, "}, reason="length") == "length"

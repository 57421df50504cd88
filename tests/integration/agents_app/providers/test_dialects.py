"""Streams of every dialect, replayed through the real HTTP client in pieces of several sizes."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents_app.providers import registry
from agents_app.providers.base import Provider, ProviderError
from agents_app.types import Message, ModelRequest, RunOptions, Usage
from tests.fakes import dialects
from tests.fakes.replay_server import Recorded, ReplayServer
from tests.fakes.streams import Streamed, collect
from tools_app.types import ToolSpec

pytestmark = pytest.mark.one_database

FOLDER = Path(dialects.__path__[0])
SIZES = (0, 7, 61)  # bytes of a piece; 0: the whole stream at once
TOOLS = (ToolSpec("weather", "", {"type": "object"}), ToolSpec("date_time", "", {"type": "object"}))
BERN, BASEL, ZURICH = ("weather", {"city": "Bern"}), ("weather", {"city": "Basel"}), ("weather", {"city": "Zürich"})
NEED = "I need the tool.\n"
# A request without tools: the server leaves what looks like calls in the text.
UNPARSED = "\n".join(
    f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
    for city in ("Bern", "Zürich")
)
TOKYO, NOW = ("date_time", {"timezone": "Asia/Tokyo"}), ("date_time", {})


@dataclass(frozen=True)
class Expected:
    """The response to a stream. back: texts that only the next request of the run contains."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, dict[str, str]], ...] = ()
    usage: Usage = Usage()
    finish_reason: str = ""
    back: tuple[str, ...] = ()


ANSWERS = {
    "openai_chat_parallel_calls.sse": Expected(calls=(ZURICH, TOKYO), usage=Usage(1203, 119, 1024, 64)),
    "openai_chat_refusal.sse": Expected("I can't help with that.", usage=Usage(20, 6)),
    "openai_chat_hidden_reasoning_cut.sse": Expected(usage=Usage(18, 512, 0, 512), finish_reason="length"),
    "vllm_reasoning_and_calls.sse": Expected(
        reasoning="The user wants the weather. 🌦",
        calls=(BERN, BASEL),
        usage=Usage(310, 26, 288),
        back=('"reasoning_content": "The user wants',),
    ),
    "vllm_reasoning_newer_name.sse": Expected("Four.", "Two and two.", usage=Usage(310, 5)),
    "vllm_responses_reasoning_text.sse": Expected(
        reasoning="Need a tool.", calls=(BERN,), usage=Usage(70, 20, 0, 6), back=('"reasoning_text"',)
    ),
    "ollama_older_index_reused.sse": Expected(calls=(BERN, BASEL)),
    "llama_cpp_reasoning_and_calls.sse": Expected(
        reasoning="I need the tool.", calls=(BERN,), usage=Usage(155, 35, 120), back=('"reasoning_content"',)
    ),
    "llama_cpp_reasoning_in_text.sse": Expected("Four.", "\nHm, two and two. ", usage=Usage(21, 14)),
    "anthropic_text_and_calls.sse": Expected("I'll look both up.", calls=(BERN, NOW), usage=Usage(472, 89)),
    "anthropic_usage_in_halves.sse": Expected("Yes.", usage=Usage(472, 9)),
    "gemini_signed_parallel_calls.sse": Expected(
        calls=(BERN, BASEL),
        usage=Usage(96, 108, 0, 72),
        back=('"extra_content": {"google": {"thought_signature": "CvQBAVSoXO4Xb7kQ=="}}',),
    ),
    "gemini_split_call_and_lone_signature.sse": Expected(
        calls=(BERN,), usage=Usage(96, 8), back=('"thought_signature": "CsYBAXLI2ny="',)
    ),
    "gemini_text.sse": Expected("Grüezi!", usage=Usage(96, 44, 0, 40)),
    "groq_reasoning_and_calls.sse": Expected(
        reasoning="Bern first, then the time.",
        calls=(BERN, NOW),
        usage=Usage(211, 57, 128, 24),
        back=('"reasoning": "Bern first',),
    ),
    "xai_reasoning_and_calls.sse": Expected(
        reasoning="Bern is asked.", calls=(BERN,), usage=Usage(301, 151, 256, 120), back=('"reasoning_content"',)
    ),
    "perplexity_running_message.sse": Expected("Bern is the capital[1].", usage=Usage(12, 5)),
    "perplexity_last_chunk_whole.sse": Expected("Bern is the capital[1].", usage=Usage(12, 5)),
    "perplexity_whole.json": Expected("Bern is the capital[1].", usage=Usage(12, 5)),
    "azure_filter_results.sse": Expected("Grüezi!", usage=Usage(9, 4)),
    "moonshot_usage_in_the_choice.sse": Expected(
        reasoning="I should check.",
        calls=(BERN,),
        usage=Usage(80, 30, 64),
        back=('"reasoning_content": "I should check."',),
    ),
    "deepseek_reasoning.sse": Expected("Four.", "Easy.", usage=Usage(50, 9, 32, 5)),
    "openrouter_reasoning_details.sse": Expected(
        reasoning="Let me see.",
        calls=(BERN,),
        usage=Usage(400, 60, 0, 22),
        back=('"text": "Let me see.", "format"', '"signature": "EqQBCgIYAhIM"'),
    ),
    "mistral_thinking_parts.sse": Expected("Four.", "Two and two.", usage=Usage(11, 9)),
    "mistral_calls.sse": Expected(calls=(BERN, BASEL), usage=Usage(96, 23, 64)),
    "mistral_audio_usage.sse": Expected("Birds sing.", usage=Usage(386, 4, 9)),
    "recorded_llama_cpp_text.sse": Expected("Bern is cool 🌦 today..", usage=Usage(27, 6, 26)),
    "recorded_llama_cpp_reasoning.sse": Expected("Four it is", "Two and two.\n", usage=Usage(23, 9, 22)),
    "recorded_llama_cpp_length.sse": Expected(
        "again andagain andagain and", usage=Usage(21, 6, 20), finish_reason="length"
    ),
    "recorded_llama_cpp_calls.sse": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(435, 18, 434), back=('"reasoning_content"',)
    ),
    "recorded_llama_cpp_whole.json": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(435, 18, 434), back=('"reasoning_content"',)
    ),
    "recorded_llama_cpp_responses_calls.sse": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(419, 18, 156), back=('"reasoning_text"',)
    ),
    "recorded_llama_cpp_responses_reasoning.sse": Expected("Four it is", "Two and two.\n", usage=Usage(23, 9, 22)),
    "recorded_ollama_text.sse": Expected("Bern is cool 🌦 today.", usage=Usage(20, 11)),
    "recorded_ollama_reasoning.sse": Expected("Four it is", "Two and two.\n", usage=Usage(20, 8)),
    "recorded_ollama_length.sse": Expected("again andagain andagain and", usage=Usage(20, 6), finish_reason="length"),
    "recorded_ollama_calls.sse": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(304, 18), back=('"reasoning": "I need',)
    ),
    "recorded_ollama_text_and_call.sse": Expected("I look it up.\n", calls=(BASEL,), usage=Usage(304, 8)),
    "recorded_ollama_whole.json": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(304, 18), back=('"reasoning": "I need',)
    ),
    "recorded_ollama_responses_calls.sse": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(304, 18), back=('"encrypted_content": "I need',)
    ),
    "recorded_ollama_responses_reasoning.sse": Expected("Four it is", "Two and two.\n", usage=Usage(20, 8)),
    "recorded_ollama_responses_length.sse": Expected("again andagain andagain and", usage=Usage(20, 6)),
    "recorded_ollama_responses_whole.json": Expected(
        reasoning=NEED, calls=(BERN, ZURICH), usage=Usage(304, 18), back=('"encrypted_content": "I need',)
    ),
    "recorded_vllm_calls.sse": Expected(
        "\n\n", f"\n{NEED}", (BERN, ZURICH), Usage(435, 18, 0, 3), back=('"reasoning": "\\nI need',)
    ),
    "recorded_vllm_reasoning.sse": Expected(f"\n\n{UNPARSED}", f"\n{NEED}", usage=Usage(27, 18, 0, 3)),
    "recorded_vllm_responses_calls.sse": Expected(
        "\n\n", f"\n{NEED}", (BERN, ZURICH), Usage(419, 18, 128, 3), back=('"reasoning_text"',)
    ),
    "recorded_vllm_responses_text.sse": Expected(f"\n\n{UNPARSED}", f"\n{NEED}", usage=Usage(27, 18, 0, 3)),
    "odd_arguments_as_object.sse": Expected(calls=(BERN, NOW)),
    "odd_index_missing.sse": Expected(calls=(BERN, NOW)),
    "odd_id_in_every_piece.sse": Expected(calls=(BERN, NOW)),
    "odd_ids_repeated.sse": Expected(calls=(BERN, BASEL)),
    "responses_reasoning_and_calls.sse": Expected(
        reasoning="**Looking up**\n\nTwo calls.",
        calls=(ZURICH, TOKYO),
        usage=Usage(1203, 119, 1024, 64),
        back=('"encrypted_content": "gAAAAABoENCRYPTED1"',),
    ),
    "responses_two_messages.sse": Expected("Let me look.\n\nIt is ten 🕙.", usage=Usage(30, 9)),
    "responses_refusal.sse": Expected("I can't help with that.", usage=Usage(9, 6)),
    "responses_incomplete.sse": Expected("Once upon", usage=Usage(9, 16), finish_reason="length"),
    "responses_only_the_end.sse": Expected(
        "Looking.", "**Looking up**\n\nTwo calls.", (ZURICH,), Usage(1203, 119, 1024, 64), back=("gAAAAABoENCRYPTED1",)
    ),
    "responses_whole.json": Expected("Four.", "Easy.", usage=Usage(9, 6)),
}
FAILURES = {
    "vllm_error_in_mid_stream.sse": ("model_error", "Half", Usage(310, 1)),
    "openrouter_error_in_mid_stream.sse": ("model_rate_limited", "Half", Usage(40, 1)),
    "groq_rejected_call.sse": ("model_error", "", Usage()),
    "llama_cpp_error_line.sse": ("model_error", "Half", Usage()),
    "ollama_no_room.sse": ("model_context_overflow", "", Usage(4096)),
    "responses_failed.sse": ("model_error", "Half", Usage(9, 1)),
    "responses_error_event.sse": ("model_context_overflow", "", Usage()),
    "responses_error_event_nested.sse": ("model_rate_limited", "", Usage()),
}
CUT_CALLS = {"responses_incomplete_call.sse": '{"city": "Zü', "openrouter_cut_call.sse": "{"}


def provider_of(name: str, server: ReplayServer) -> Provider:
    kind = "openai_responses" if "responses_" in name else "openai"
    return registry.load(kind)(base_url=server.base_url, default_model="big-1")


def recordings(name: str) -> list[Recorded]:
    return [Recorded.of_file(FOLDER / name, piece_bytes=size) for size in SIZES]


def test_every_file_has_its_row() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".sse", ".json")}
    assert files == {*ANSWERS, *FAILURES, *CUT_CALLS}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_stream_is_read_in_pieces_of_any_size(name: str) -> None:
    expected = ANSWERS[name]
    asks = ModelRequest("", (Message("user", "Look it up."),), TOOLS)
    with ReplayServer(*recordings(name)) as server:
        provider = provider_of(name, server)
        for _ in SIZES:
            streamed = await collect(provider, asks)
            made = streamed.response
            calls = tuple((call.name, json.loads(call.arguments)) for call in made.tool_calls)
            assert (made.text, made.reasoning, calls) == (expected.text, expected.reasoning, expected.calls)
            assert ("".join(streamed.texts), "".join(streamed.reasonings)) == (made.text, made.reasoning)
            assert made.usage == expected.usage
            assert made.finish_reason == (expected.finish_reason or ("tool_calls" if calls else "stop"))
            assert len({call.id for call in made.tool_calls}) == len(calls)
        results = [Message("tool", "12", tool_call_id=call.id) for call in made.tool_calls]
        own = Message(
            "assistant", made.text, made.tool_calls, reasoning=made.reasoning, dialect_state=made.dialect_state
        )
        await collect(provider, ModelRequest("", (*asks.messages, own, *results), TOOLS))
        await provider.aclose()
    first, last = (json.dumps(server.bodies[place], ensure_ascii=False) for place in (0, -1))
    for text in expected.back:
        assert text in last and text not in first
    if not expected.back:
        assert made.dialect_state is None


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_is_an_error_with_what_came_before(name: str) -> None:
    code, text, usage = FAILURES[name]
    with ReplayServer(*recordings(name)) as server:
        provider = provider_of(name, server)
        for _ in SIZES:
            streamed = Streamed()
            with pytest.raises(ProviderError) as caught:
                await collect(provider, ModelRequest("", (Message("user", "Hello"),)), streamed)
            assert (caught.value.code, caught.value.usage) == (code, usage)
            assert "".join(streamed.texts) == text
        await provider.aclose()


@pytest.mark.parametrize("name", CUT_CALLS)
async def test_a_call_that_was_cut_off_is_never_taken_for_a_whole_one(name: str) -> None:
    with ReplayServer(*recordings(name)) as server:
        provider = provider_of(name, server)
        made = (await collect(provider, ModelRequest("", (Message("user", "Hello"),)))).response
        await provider.aclose()
    (call,) = made.tool_calls
    assert (call.arguments, made.finish_reason) == (CUT_CALLS[name], "length")


@pytest.mark.parametrize("error", [{"code": "model_not_found"}, {"code": "tool_use_failed"}])
async def test_an_error_of_another_cause_is_no_refused_parameter(error: dict[str, str]) -> None:
    with ReplayServer(Recorded.refusal(400, message="It failed.", **error)) as server:
        provider = provider_of("", server)
        with pytest.raises(ProviderError):
            await collect(provider, ModelRequest("", (Message("user", "Hello"),)))
        await provider.aclose()
    assert len(server.bodies) == 1


async def test_an_answer_with_all_the_tokens_it_may_have_was_cut_though_it_is_called_completed() -> None:
    name = "recorded_ollama_responses_length.sse"
    for limit, reason in ((6, "length"), (7, "stop")):
        request = ModelRequest("", (Message("user", "Hello"),), options=RunOptions(max_output_tokens=limit))
        with ReplayServer(Recorded.of_file(FOLDER / name)) as server:
            provider = provider_of(name, server)
            made = (await collect(provider, request)).response
            await provider.aclose()
        assert made.finish_reason == reason


async def test_a_stream_that_ends_too_early_is_an_error() -> None:
    for name in ("responses_reasoning_and_calls.sse", "openai_chat_parallel_calls.sse"):
        body = (FOLDER / name).read_bytes()
        with ReplayServer(Recorded(body[: len(body) // 2])) as server:
            provider = provider_of(name, server)
            with pytest.raises(ProviderError) as caught:
                await collect(provider, ModelRequest("", (Message("user", "Hello"),)))
            await provider.aclose()
        assert caught.value.code == "model_stream_cut"

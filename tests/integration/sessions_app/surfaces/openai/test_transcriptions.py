"""Transcriptions: what reaches the provider's server, what is counted, and what is refused."""

import json
import struct
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app.costs.cost_settings import set_price
from agents_app.models import Agent, DailyUsage, ModelProvider
from agents_app.providers import registry
from agents_app.types.prices import Price
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Attachment
from sessions_app.surfaces.openai import consumers
from tests.fakes.model_server import ModelServer
from tests.support.rest import LiveCaller
from tools_app.policy import emergency_stop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

PATH = "/v1/audio/transcriptions"


def wav(line: str, seconds: int = 2) -> bytes:
    """Return a file of so many seconds, in which the fake server finds directives."""
    data = f"[[{line}]]".encode().ljust(1000 * seconds, b"\0")
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", len(data) + 36, b"WAVE", b"fmt ", 16, 1, 1, 1000, 1000, 1, 8)
    return head + struct.pack("<4sI", b"data", len(data)) + data


class Caller:
    """A client that sends forms."""

    def __init__(self, key: str) -> None:
        self.live = LiveCaller(URLRouter(consumers.routes), bearer=key)

    async def __call__(self, audio: bytes = b"", **fields: str) -> tuple[int, str]:
        head = 'Content-Disposition: form-data; name="{}"'
        parts = [
            f"{head.format(name)}\r\n\r\n{value}".encode() for name, value in {"model": "default", **fields}.items()
        ]
        if audio:
            parts.append(f'{head.format("file")}; filename="a.wav"\r\n\r\n'.encode() + audio)
        body = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"
        await self.live._send_request("POST", PATH, [body], {"content-type": "multipart/form-data; boundary=x"})
        status, self.headers, data = self.live._received()
        return status, data.decode()

    async def refused(self, audio: bytes = b"", **fields: str) -> tuple[int, str]:
        status, text = await self(audio, **fields)
        return status, json.loads(text)["error"]["code"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
async def provider(default_agent: Agent, server: ModelServer) -> AsyncIterator[ModelProvider]:
    fields = {"kind": "openai", "base_url": server.base_url, "transcription_model": "whisper-1"}
    row = await in_db(partial(ModelProvider.objects.create, name="own", **fields))
    await in_db(Agent.objects.filter(pk=default_agent.pk).update, provider=row)
    yield row
    await registry.aclose_all()


@pytest.fixture
def ask(default_agent: Agent, alice: User) -> Caller:
    return Caller(create_api_key(alice, "k", scopes=["openai"]).key)


async def test_the_words_of_a_file_are_returned(
    ask: Caller, provider: ModelProvider, server: ModelServer, alice: User
) -> None:
    await in_db(set_price, "own", "whisper-1", Price(1.0, 1.0))
    status, text = await ask(wav('text="Guten Tag"'), language="de", prompt="A greeting.", temperature="0.5")
    usage = {"type": "tokens", "input_tokens": 30, "output_tokens": 6, "total_tokens": 36}
    assert (status, json.loads(text)) == (200, {"text": "Guten Tag", "usage": usage})
    [call] = server.requests
    sent = {name: value for name, value in call.body.items() if name != "file"}
    assert sent == {"model": "whisper-1", "language": "de", "prompt": "A greeting.", "temperature": "0.5"}
    assert (call.body["file"]["filename"], call.body["file"]["type"]) == ("audio.wav", "audio/wav")
    row = await in_db(DailyUsage.objects.get)
    assert (row.agent_id, row.actor, row.model) == ("default", f"user:{alice.pk}", "whisper-1")
    assert (row.input_tokens, row.output_tokens, row.cost_nanos) == (30, 6, 36_000_000)
    assert not await in_db(Attachment.objects.exists), "nothing is kept"


async def test_the_answer_has_the_form_that_is_wanted(
    ask: Caller, provider: ModelProvider, server: ModelServer
) -> None:
    spoken = wav('text="Hello" nousage')
    assert await ask(spoken, response_format="text", model="whisper-1") == (200, "Hello\n")
    assert ask.headers["content-type"].startswith("text/plain")
    _, text = await ask(spoken)
    assert json.loads(text)["usage"] == {"type": "duration", "seconds": 2.04}
    _, text = await ask(spoken, **{"response_format": "verbose_json", "timestamp_granularities[]": "segment"})
    verbose = json.loads(text)
    assert (verbose["task"], verbose["language"], verbose["duration"]) == ("transcribe", "english", 3.0)
    assert verbose["segments"] == [{"id": 0, "start": 0.0, "end": 3.0, "text": "Hello"}]
    assert server.requests[-1].body["timestamp_granularities[]"] == "segment"


@pytest.mark.parametrize(
    ("audio", "fields", "code"),
    [
        (b"", {}, "no_file"),
        (b"a text", {}, "unsupported_file_type"),
        (wav(""), {"model": ""}, "missing_required_parameter"),
        (wav(""), {"response_format": "srt"}, "unsupported_value"),
        (wav(""), {"stream": "true"}, "unsupported_parameter"),
        (wav(""), {"temperature": "hot"}, "invalid_value"),
        (wav(""), {"timestamp_granularities[]": "word"}, "invalid_value"),
        (wav(""), {"language": "e" * 21}, "invalid_value"),
        (wav("", seconds=3), {}, "audio_too_long"),
    ],
)
async def test_what_cannot_be_transcribed_is_refused(
    ask: Caller, provider: ModelProvider, settings: Any, audio: bytes, fields: dict[str, str], code: str
) -> None:
    settings.KOMAND_VOICE_SECONDS = 2.5
    assert await ask.refused(audio, **fields) == (400, code)


async def test_failures_and_limits_are_errors(ask: Caller, provider: ModelProvider, server: ModelServer) -> None:
    assert await ask.refused(wav("status=500")) == (502, "model_error")
    assert await ask.refused(wav("status=400")) == (400, "model_bad_request")
    assert await ask.refused(wav(""), model="nobody") == (404, "model_not_found")
    await in_db(ModelProvider.objects.update, transcription_model="")
    assert await ask.refused(wav("")) == (400, "unsupported_model")
    await in_db(ModelProvider.objects.update, transcription_model="whisper-1", kind="demo")
    provider.kind = "demo"
    await in_db(provider.save)
    assert await ask.refused(wav("")) == (400, "model_bad_request")
    await in_db(Agent.objects.update, budgets={"costPerDay": 0})
    assert await ask.refused(wav("")) == (402, "budget_exhausted")
    await in_db(emergency_stop.stop)
    assert await ask.refused(wav("")) == (503, "stopped")
    assert len(server.requests) == 2 and not await in_db(DailyUsage.objects.exists)

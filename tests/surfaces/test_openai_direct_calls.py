"""The real `openai` client and the models beside the one that answers: embeddings and transcriptions."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

_SET = """
from agents_app.models import ModelProvider
ModelProvider.objects.update(embedding_model="vectors", transcription_model="ears")
"""


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    live_komand.manage("shell", "--no-imports", "-c", _SET)
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def test_texts_are_embedded_by_the_model_of_the_provider(client: OpenAI, model_server: ModelServer) -> None:
    made = client.embeddings.create(model="vectors", input=["a", "bcd"])  # as base64, which the client decodes
    assert [item.embedding for item in made.data] == [[0.0, 1.0, 0.5], [1.0, 3.0, 0.5]]
    assert (made.model, made.usage.total_tokens) == ("vectors", 5)
    assert model_server.requests[-1].body["encoding_format"] == "base64"
    plain = client.embeddings.create(model="default", input=[[1, 2]], encoding_format="float", dimensions=4)
    assert plain.data[0].embedding == [0.0, 2.0, 0.5, 0.5]
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="default", input="")
    assert refused.value.param == "input"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="text-embedding-3-small", input="a")


def test_audio_is_transcribed_by_the_model_of_the_provider(client: OpenAI, model_server: ModelServer) -> None:
    audio = ("a.ogg", b'OggS[[text="Guten Tag"]]')
    made = client.audio.transcriptions.create(model="default", file=audio, language="de")
    assert made.text == "Guten Tag" and made.usage and made.usage.type == "tokens"
    assert model_server.requests[-1].body["language"] == "de"
    assert client.audio.transcriptions.create(model="ears", file=audio, response_format="text") == "Guten Tag\n"
    verbose = client.audio.transcriptions.create(
        model="ears", file=audio, response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert verbose.duration == 3.0 and [segment.text for segment in verbose.segments or ()] == ["Guten Tag"]
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(model="ears", file=audio, response_format="srt")
    assert refused.value.param == "response_format"

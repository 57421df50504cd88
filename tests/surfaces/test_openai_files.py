"""The real `openai` client and files: uploaded once, named in requests, deleted."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def test_a_file_reaches_the_model_by_its_id_until_it_is_deleted(client: OpenAI, model_server: ModelServer) -> None:
    file = client.files.create(
        file=("notes.txt", b"The word is heron."),
        purpose="user_data",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (file.bytes, file.status, file.filename) == (18, "processed", "notes.txt")
    assert file.expires_at == file.created_at + 3600
    assert file.id in [each.id for each in client.files.list(purpose="user_data", limit=1)]
    assert client.files.retrieve(file.id) == file and client.files.content(file.id).read() == b"The word is heron."
    part: Any = [{"type": "input_file", "file_id": file.id}, {"type": "input_text", "text": "Read it by the one."}]
    client.responses.create(model="default", input=[{"role": "user", "content": part}])
    part = [{"type": "file", "file": {"file_id": file.id}}, {"type": "text", "text": "Read it by the other."}]
    client.chat.completions.create(model="default", messages=[{"role": "user", "content": part}])
    texts = [str(call.body["messages"][-1]["content"]) for call in model_server.requests if "messages" in call.body]
    read = [text for text in texts if "Read it by the" in text]
    assert len(read) == 2 and all("The word is heron." in text for text in read)
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="default", messages=[{"role": "user", "content": part}])
    assert refused.value.code == "file_not_found" and refused.value.param == "messages"
    with pytest.raises(openai.BadRequestError, match="'batch' is not supported"):
        client.files.create(file=("a.jsonl", b"{}"), purpose="batch")

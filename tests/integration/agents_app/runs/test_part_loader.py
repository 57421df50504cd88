"""Model calls with the files of messages: sent, scaled, described if they cannot be sent, repeated if refused."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents_app.models import Agent, ModelProvider
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import part_loader
from agents_app.types import LoadedPart, RunTranscript
from audit_app.models import Event
from sessions_app.attachments import uploads
from sessions_app.models import Attachment
from sessions_app.services import NewMessage, receive
from tests.fakes.model_server import ModelServer
from tests.support.absent_store import fail_first_read
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def image(size: tuple[int, int] = (40, 30), form: str = "PNG") -> bytes:
    target = BytesIO()
    Image.new("RGB", size, "red").save(target, form)
    return target.getvalue()


@pytest.fixture(autouse=True)
def _fresh(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.DATA_DIR = tmp_path
    yield
    part_loader._kept.clear()
    part_loader._refused.clear()


@pytest.fixture
def server(rig: EngineRig) -> Iterator[ModelServer]:
    with ModelServer(refuse_parts=False) as server:
        rig.agent()
        provider = ModelProvider.objects.create(name="seen", kind="openai", base_url=server.base_url)
        Agent.objects.update(provider=provider, model_id="llava")
        yield server


def ask(rig: EngineRig, *files: tuple[str, bytes], text: str = "Look.") -> RunTranscript:
    rows = [uploads.upload(rig.owner, name, data) for name, data in files]
    message = NewMessage("WebChat", "default", "alice", "Alice", text, attachments=tuple(row.id for row in rows))
    return rig.wait(receive(message, owner=rig.owner).run_id)


def choose(kinds: str) -> None:
    for provider in ModelProvider.objects.all():
        provider.accepted_parts = kinds
        provider.save()


def test_an_image_is_sent_in_each_call_of_its_conversation(rig: EngineRig, server: ModelServer) -> None:
    assert ask(rig, ("a.png", image())).answer
    text, picture = server.messages[-1]["content"]
    assert text["text"].startswith("Look.\n\n[Attached image a.png (image/png, ")
    assert "cannot be shown" not in text["text"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    first = server.messages
    assert ask(rig, text="And now?").answer
    assert server.messages[: len(first)] == first, "a server can cache the beginning of the conversation"
    assert not Attachment.objects.exclude(omitted_because="").exists()


def test_a_file_that_cannot_be_read_just_now_is_sent_by_the_next_try(
    rig: EngineRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = fail_first_read(monkeypatch)
    assert ask(rig, ("a.png", image())).answer
    assert len(reads) == 2 and server.messages[-1]["content"][1]["image_url"]["url"].startswith("data:image/png")
    assert not Attachment.objects.exclude(omitted_because="").exists()


def test_a_large_image_is_scaled_once(rig: EngineRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(rig, ("a.jpg", image((12_000, 1_000), "JPEG"))).answer
    monkeypatch.setattr(part_loader, "_IMAGES", "not loaded again")
    assert ask(rig, text="And now?").answer
    [part] = part_loader._kept.values()
    assert max(Image.open(BytesIO(part.data)).size) == 2_048


def test_a_model_that_takes_no_images_gets_a_description_and_the_user_sees_it(
    rig: EngineRig, server: ModelServer
) -> None:
    choose("none")
    transcript = ask(rig, ("a.png", image()))
    assert "cannot be shown here, because the model does not accept images]" in server.messages[-1]["content"]
    row = Attachment.objects.get()
    assert row.omitted_because == "the model does not accept images"
    [event] = Event.objects.filter(type="attachments.omitted", run_id=transcript.run.id)
    assert event.payload == {"attachments": [{"id": str(row.pk), "name": "a.png", "reason": row.omitted_because}]}
    [turn, _] = RestCaller(rig.owner).get(f"sessions/{transcript.run.conversation_id}/history").data
    assert turn["attachments"][0]["omittedBecause"] == row.omitted_because
    assert ask(rig, text="And now?").answer
    assert Event.objects.filter(type="attachments.omitted").count() == 1, "earlier messages are not reported again"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("cut.png", image((400, 400))[:-30], "it is damaged"),
        ("paper.pdf", b"%PDF-1.7 ...", "the model does not accept files"),
    ],
)
def test_a_file_that_cannot_be_sent_costs_only_itself(
    rig: EngineRig, server: ModelServer, name: str, data: bytes, reason: str
) -> None:
    assert ask(rig, (name, data), ("good.png", image())).answer
    text, *pictures = server.messages[-1]["content"]
    assert f"because {reason}]" in text["text"] and len(pictures) == 1
    assert Attachment.objects.get(filename=name).omitted_because == reason


def test_a_refused_image_is_described_and_not_sent_again(rig: EngineRig, server: ModelServer) -> None:
    server._defaults["refuse_parts"] = True
    assert ask(rig, ("a.png", image())).answer
    assert "because the model's server refuses it]" in server.messages[-1]["content"]
    assert Attachment.objects.get().omitted_because == "the model's server refuses it"
    count = server.count
    assert ask(rig, text="And now?").answer
    assert server.count == count + 1, "a refused image costs no further calls"


def test_another_error_of_the_server_stays_what_it_is(rig: EngineRig, server: ModelServer) -> None:
    server.script(*["status=400 message=Nope"] * 4)
    transcript = ask(rig, ("a.png", image()))
    assert transcript.run.error_code == "model_bad_request" and "Nope" in transcript.run.error_message
    assert not part_loader._refused


def test_the_request_of_a_provider_contains_loaded_parts_alone(rig: EngineRig) -> None:
    script = rig.agent(Reply(("seen",)))
    choose("image,audio,file")
    ask(rig, ("a.png", image()), ("b.wav", b"RIFF\0\0\0\0WAVEfmt "), ("c.pdf", b"%PDF-1.7"))
    [request] = script.requests
    parts = request.messages[-1].parts
    assert [(part.kind, part.name, isinstance(part, LoadedPart)) for part in parts] == [
        ("image", "a.png", True),
        ("audio", "b.wav", True),
        ("file", "c.pdf", True),
    ]

"""Files of messages in the protocols: OpenAI, SignalR, and conversations that are copied."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app.errors import RunBusy
from agents_app.models import Agent, Run
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app import services
from sessions_app.attachments import uploads
from sessions_app.conversation.history import StoredConversations
from sessions_app.conversation.session_texts import StoredSessionTexts
from sessions_app.identity.principal import Principal
from sessions_app.models import Attachment, Session, Turn
from sessions_app.surfaces.agent_messages import agent_runs, run_files
from sessions_app.surfaces.agent_messages import commands as agent_messages
from sessions_app.surfaces.base.surface import most_body_bytes
from sessions_app.surfaces.openai import commands as openai
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.requests import read_completion, read_response
from sessions_app.surfaces.signalr import commands as signalr
from tests.support.rest import make_agent, make_user
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}
LOOK = {"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]}


@pytest.fixture
def user(valkey: object, settings: Any, tmp_path: Path) -> User:
    settings.DATA_DIR = tmp_path
    make_agent()
    return make_user("ada")


def history_after(run_id: Any) -> list[Any]:
    run = agents.get_run(run_id)
    return list(StoredConversations().history(run.conversation_id, run.ordinal, longest=100_000))


def test_an_image_of_a_completion_is_a_file_of_its_message(user: User) -> None:
    parsed = read_completion({"model": "default", "messages": [LOOK]})
    accepted = openai.accept(Principal(user, "jwt"), parsed, "once")
    [message] = StoredConversations().user_turns(accepted.run_id)
    [part] = message.parts
    assert (part.mime_type, part.name) == ("image/png", "image.png")
    assert StoredConversations().load_part(part.reference) == PNG
    assert openai.accept(Principal(user, "jwt"), parsed, "once").run_id == accepted.run_id
    assert StoredSessionTexts().origins(accepted.session_id) == ("file:attachment",)


def test_images_of_earlier_messages_stay_in_the_history(user: User) -> None:
    messages = [LOOK, {"role": "assistant", "content": "Red."}, {"role": "user", "content": "And now?"}]
    parsed = read_completion({"model": "default", "messages": messages})
    accepted = openai.accept(Principal(user, "jwt"), parsed, "")
    first, _ = history_after(accepted.run_id)
    assert first.content.startswith("Look.\n\n[Attached image image.png") and len(first.parts) == 1
    assert Turn.objects.get(part=0, ordinal=0).content == "Look.", "what is attached is not what the user has written"
    assert StoredSessionTexts().texts(accepted.session_id).own == ("And now?", "Look.")


def test_a_file_of_a_type_that_is_not_accepted_is_refused(user: User) -> None:
    file = {"type": "file", "file": {"filename": "a.exe", "file_data": base64.b64encode(b"MZ\x00").decode()}}
    parsed = read_completion({"model": "default", "messages": [{"role": "user", "content": [file]}]})
    with pytest.raises(InvalidInput, match="not accepted"):
        openai.accept(Principal(user, "jwt"), parsed, "")
    assert not Run.objects.exists()


def test_a_continued_response_keeps_the_files_apart_from_the_text(user: User) -> None:
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": IMAGE["image_url"]["url"]}]  # type: ignore[index]
    begun = read_response({"model": "default", "input": [{"role": "user", "content": content}]})
    first = openai.accept(Principal(user, "jwt"), begun, "")
    second = read_response({"model": "default", "input": "One.", "previous_response_id": f"resp_{first.run_id.hex}"})
    openai.accept(Principal(user, "jwt"), second, "")
    branched = openai.accept(Principal(user, "jwt"), second, "")
    assert branched.session_id != first.session_id
    copied = Turn.objects.get(session_id=branched.session_id, ordinal=0)
    assert copied.content == "Look." and copied.attached.startswith("[Attached image")
    assert [len(message.parts) for message in history_after(branched.run_id)] == [1]
    assert StoredSessionTexts().origins(branched.session_id) == ("file:attachment",)


def test_a_fork_has_the_files_of_its_source(user: User) -> None:
    session = services.open_session(owner=user)
    row = uploads.upload(user, "a.png", PNG)
    message = services.NewMessage.into(session, "Look.", attachments=(row.pk,))
    accepted = services.receive(message, owner=user, session=session)
    Run.objects.filter(pk=accepted.run_id).update(status="completed")
    fork = agent_messages.fork(Principal(user, "jwt"), agent_runs.load(Session.objects.get(pk=session.pk))).session
    turn = Turn.objects.get(session=fork)
    assert turn.content == "Look." and turn.attached.startswith("[Attached image")
    copied = Attachment.objects.get(turn=turn)
    assert artifacts.get_artifact(copied.artifact_id).session_id == fork.pk  # type: ignore[arg-type]


def test_the_images_of_a_closed_batch_are_files_of_its_message(user: User) -> None:
    principal, session = Principal(user, "jwt"), services.open_session(owner=user)
    for name in ("a.png", "b.csv"):
        artifacts.write_artifact(artifacts.Writer(session.id), f"files/{name}", PNG)
        uploaded = {"id": name, "name": name, "artifact_path": f"files/{name}"}
        kind = "image/png" if name == "a.png" else "text/csv"
        run_files.file_uploaded(principal, session, {**uploaded, "content_type": kind})
    for _ in range(2):
        run_files.batch_closed(principal, session, {"batch_id": "b1", "file_ids": ["a.png", "b.csv", "c.png"]})
    turn = Turn.objects.get(session=session)
    assert turn.content.startswith("[Files Ready]") and turn.attached.startswith("[Attached image a.png (image/png")
    assert Attachment.objects.get(turn=turn).filename == "a.png"
    assert [view.path for view in artifacts.list_artifacts(session.id)] == ["files/a.png", "files/b.csv"]


def test_files_are_sent_and_received_over_the_hub(user: User) -> None:
    row, principal = uploads.upload(user, "a.png", PNG), Principal(user, "jwt")
    subscription = signalr.send_message(principal, "default", "", "", [str(row.pk)])
    assert subscription.run_id and len(StoredConversations().user_turns(subscription.run_id)[0].parts) == 1
    writer = artifacts.Writer(subscription.session_id, subscription.run_id)
    view = artifacts.write_artifact(writer, "out/report.csv", b"a,b", media_type="text/csv")
    Run.objects.filter(pk=subscription.run_id).update(status="completed")
    received = signalr.read_message(subscription, subscription.run_id)
    assert received["attachments"] == [
        {
            "id": str(view.id),
            "filename": "report.csv",
            "mimeType": "text/csv",
            "sizeBytes": 3,
            "url": f"/api/artifacts/{view.id}",
        }
    ]
    for wrong in ("a", [7], ["x"]):
        with pytest.raises(InvalidInput, match="list of ids"):
            signalr.send_message(principal, "default", "hello", "", wrong)


def test_bodies_with_files_may_be_longer(settings: Any) -> None:
    for path in ("/v1/chat/completions", "/v1/responses"):
        assert most_body_bytes(path) == settings.KOMAND_ARTIFACT_MAX_BYTES
    assert most_body_bytes("/v1/models") == most_body_bytes("/v1/responses/resp_1") == settings.KOMAND_MAX_BODY_BYTES


def unsent() -> int:
    return Attachment.objects.filter(turn=None).count()


def test_files_of_a_repeated_or_refused_message_are_not_kept(user: User) -> None:
    principal, parsed = Principal(user, "jwt"), read_completion({"model": "default", "messages": [LOOK]})
    first = openai.accept(principal, parsed, "once")
    assert openai.accept(principal, parsed, "once").run_id == first.run_id
    assert unsent() == 0
    Run.objects.update(status="queued")
    Agent.objects.update(busy_policy="reject")
    with pytest.raises(RunBusy):
        openai.accept(principal, replace(parsed, session=first.session_key), "")
    assert unsent() == 0


def test_files_of_a_batch_that_is_closed_twice_are_not_kept(user: User) -> None:
    principal, session = Principal(user, "jwt"), services.open_session(owner=user)
    artifacts.write_artifact(artifacts.Writer(session.id), "files/a.png", PNG)
    uploaded = {"id": "a", "name": "a.png", "artifact_path": "files/a.png", "content_type": "image/png"}
    run_files.file_uploaded(principal, session, uploaded)
    for _ in range(2):
        run_files.batch_closed(principal, session, {"batch_id": "b1", "file_ids": ["a"]})
        assert unsent() == 0


def test_references_of_an_input_that_is_too_long_are_not_read(user: User, django_assert_num_queries: Any) -> None:
    reference = {"type": "item_reference", "id": f"msg_{'0' * 32}"}
    with django_assert_num_queries(0):
        body = resolve_references(user, {"model": "default", "input": [reference] * 2_001})
    with pytest.raises(InvalidInput, match="at most 2,000"):
        read_response(body)
    with pytest.raises(NotFound, match="Item with id"):
        resolve_references(user, {"input": [LOOK] * 300 + [reference]})

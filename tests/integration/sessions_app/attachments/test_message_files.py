"""Files of messages: uploaded by REST, sent with a message, stored with the session and described to the model."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import Run
from audit_app import retention
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app import services
from sessions_app.attachments import uploads
from sessions_app.conversation.history import StoredConversations
from sessions_app.conversation.session_texts import StoredSessionTexts
from sessions_app.identity.principal import Principal
from sessions_app.models import Attachment, Session, Turn
from sessions_app.services import NewMessage
from sessions_app.surfaces.rest.consumers import accept_message
from tests.support.rest import RestCaller, make_agent, make_user
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture(autouse=True)
def own_data_folder(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def user(valkey: object) -> User:
    make_agent()
    return make_user("ada")


def upload(user: User, name: str = "notes.txt", data: bytes = b"The word is heron.") -> UUID:
    answer = RestCaller(user)("POST", f"attachments?filename={name}", data)
    assert answer.status == 200, answer.error
    return UUID(answer.data["attachmentId"])


def send(user: User, text: str, *files: UUID, key: str = "", session: Session | None = None) -> services.Accepted:
    message = NewMessage("WebChat", "default", str(user.pk), "Ada", text, attachments=files)
    return services.receive(message, owner=user, session=session, idempotency_key=key)


def test_a_file_is_uploaded_sent_stored_with_the_session_and_described_to_the_model(user: User, tmp_path: Path) -> None:
    first, second = upload(user), upload(user, "photo.png", PNG)
    accepted = send(user, "What is the word?", first, second)
    [message] = StoredConversations().user_turns(accepted.run_id)
    text = message.content
    assert text.startswith(
        "What is the word?\n\n[Attached file notes.txt (text/plain, 18 bytes); stored as files/notes"
    )
    assert "The word is heron." in text
    assert "[Attached image photo.png (image/png, 108 bytes); stored as files/photo.png: its content" in text
    stored = {view.path: view for view in artifacts.list_artifacts(accepted.session_id)}
    assert {path: view.media_type for path, view in stored.items()} == {
        "files/notes.txt": "text/plain",
        "files/photo.png": "image/png",
    }
    assert artifacts.read_artifact(accepted.session_id, "files/photo.png")[1] == PNG
    assert stored["files/notes.txt"].origins == ("file:files/notes.txt",)
    assert not list((tmp_path / "attachments").rglob("*-*"))  # the content is stored once


def test_images_audio_and_papers_are_parts_whose_bytes_are_loaded_later(user: User) -> None:
    conversations = StoredConversations()
    accepted = send(user, "Look.", upload(user), upload(user, "photo.png", PNG), upload(user, "a.zip", b"PK\x03\x04"))
    [message] = conversations.user_turns(accepted.run_id)
    [part] = message.parts
    assert (part.kind, part.mime_type, part.name, part.size_bytes) == ("image", "image/png", "photo.png", len(PNG))
    assert part.note in message.content
    assert conversations.load_part(part.reference) == PNG
    [stored] = conversations.history(accepted.session_id, accepted.ordinal + 1, longest=1000)
    assert replace(stored, ordinal=None) == message


def test_a_part_that_is_gone_or_that_an_agent_has_replaced_is_not_loaded(user: User) -> None:
    accepted = send(user, "Look.", upload(user, "photo.png", PNG))
    [message] = StoredConversations().user_turns(accepted.run_id)
    artifacts.write_artifact(artifacts.Writer(accepted.session_id, uuid4()), "files/photo.png", b"another")
    for _ in range(2):
        with pytest.raises(NotFound):
            StoredConversations().load_part(message.parts[0].reference)
        artifacts.delete_artifact(accepted.session_id, "files/photo.png")


def test_an_attached_file_taints_the_session(user: User) -> None:
    accepted = send(user, "Read it.", upload(user))
    assert StoredSessionTexts().origins(accepted.session_id) == ("file:attachment",)


def test_the_history_lists_the_files_of_a_message(user: User) -> None:
    second, first = upload(user, "notes.txt", b"Another one."), upload(user)
    accepted = send(user, "", first, second)
    [turn] = RestCaller(user).get(f"sessions/{accepted.session_id}/history").data
    assert turn["content"] == "📎 notes.txt, notes (2).txt"
    shown = [(file["filename"], file["mediaType"], file["sizeBytes"]) for file in turn["attachments"]]
    assert shown == [("notes.txt", "text/plain", 18), ("notes (2).txt", "text/plain", 12)]
    content = RestCaller(user).get(turn["attachments"][1]["url"].removeprefix("/api/"))
    assert content.data == b"Another one."
    assert content.headers["X-Content-Type-Options"] == "nosniff"


def test_a_message_over_rest_names_its_files(user: User) -> None:
    body = {"senderId": str(user.pk), "text": "Look.", "attachments": [str(upload(user))]}
    accepted = accept_message(Principal(user, "jwt"), body, "once")
    assert Attachment.objects.get(turn_id=accepted.turn_id).artifact_id
    assert accept_message(Principal(user, "jwt"), body, "once").is_duplicate


def test_a_message_that_is_sent_twice_has_its_files_once(user: User) -> None:
    file = upload(user)
    first, again = send(user, "Read it.", file, key="k"), send(user, "Read it.", file, key="k")
    assert again.is_duplicate and again.run_id == first.run_id
    assert Attachment.objects.filter(turn_id=first.turn_id).count() == 1


@pytest.mark.parametrize("whose", ["another user's", "sent before", "unknown"])
def test_only_own_files_that_are_not_sent_can_be_sent(user: User, whose: str) -> None:
    file = uuid4() if whose == "unknown" else upload(make_user("eve") if whose == "another user's" else user)
    if whose == "sent before":
        send(user, "First.", file)
    with pytest.raises(InvalidInput) as refused:
        send(user, "Read it.", file)
    assert refused.value.code == "unknown_attachment"
    assert not Run.objects.filter(conversation_id__in=Turn.objects.filter(content="Read it.").values("session_id"))


def test_a_message_has_at_most_five_files(user: User, settings: Any) -> None:
    assert settings.KOMAND_MESSAGE_FILES == 5
    files = [upload(user, f"{number}.txt") for number in range(6)]
    with pytest.raises(InvalidInput, match="at most 5 files"):
        send(user, "Read them.", *files)
    assert not Session.objects.exists()
    assert Attachment.objects.filter(turn_id=send(user, "Read them.", *files[:5]).turn_id).count() == 5


def test_the_quota_of_the_session_holds_for_attached_files(user: User, settings: Any) -> None:
    files = [upload(user, "a.txt", b"a" * 60), upload(user, "b.txt", b"b" * 60)]
    settings.KOMAND_ARTIFACTS_MAX_BYTES = 100
    with pytest.raises(InvalidInput) as refused:
        send(user, "Read them.", *files)
    assert refused.value.code == "quota_exceeded"


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("run.exe", b"MZ\x90\x00" + bytes(50), "unsupported_file_type"),
        ("picture.png", b"MZ\x90\x00" + bytes(50), "unsupported_file_type"),
        ("data.bin", b"\x00\x01\x02", "unsupported_file_type"),
        ("empty.txt", b"", "empty_file"),
    ],
    ids=["a program", "a program named as a picture", "unknown bytes", "nothing"],
)
def test_a_file_is_refused_by_its_bytes(user: User, name: str, data: bytes, code: str) -> None:
    answer = RestCaller(user)("POST", f"attachments?filename={name}", data)
    assert (answer.status, answer.meta["code"]) == (400, code)
    assert not Attachment.objects.exists()


def test_a_file_above_the_limit_is_refused(user: User, settings: Any) -> None:
    settings.KOMAND_ARTIFACT_MAX_BYTES = 10
    assert RestCaller(user)("POST", "attachments?filename=a.txt", b"a" * 11).status == 413


def test_names_cannot_leave_the_folder(user: User) -> None:
    file = upload(user, "..%2F..%2Fetc%2Fcon.txt")
    accepted = send(user, "Read it.", file, upload(user, "a%3Ab%3F.txt", b"other"))
    assert [view.path for view in artifacts.list_artifacts(accepted.session_id)] == ["files/_con.txt", "files/a_b_.txt"]


def test_an_uploaded_file_is_removed_before_it_is_sent(user: User, tmp_path: Path) -> None:
    file = upload(user)
    stored = tmp_path / "attachments" / Attachment.objects.get(pk=file).path
    assert stored.exists()
    assert RestCaller(make_user("eve")).delete(f"attachments/{file}").status == 404
    assert RestCaller(user).delete(f"attachments/{file}").status == 200
    assert not stored.exists()
    assert RestCaller(user).get(f"attachments/{file}").status == 404


def test_files_that_were_never_sent_are_deleted_after_a_day(user: User, tmp_path: Path) -> None:
    sent, unsent, recent = upload(user, "a.txt"), upload(user, "b.txt", b"b"), upload(user, "c.txt", b"c")
    send(user, "Read it.", sent)
    Attachment.objects.exclude(pk=recent).update(created_at=timezone.now() - timedelta(days=2))
    place = tmp_path / "attachments" / Attachment.objects.get(pk=unsent).path
    [rule] = [rule for rule in retention.list_rules() if rule.name == "uploaded files without a message"]
    assert rule.prune(100) == 1
    assert set(Attachment.objects.values_list("pk", flat=True)) == {sent, recent}
    assert not place.exists()


def test_files_that_wait_for_their_message_are_limited(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_UNSENT", 2)
    upload(user), upload(user)
    answer = RestCaller(user)("POST", "attachments?filename=c.txt", b"c")
    assert (answer.status, answer.meta["code"]) == (400, "too_many_uploads")

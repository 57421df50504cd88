"""Files of messages: fetched, stored, described for the model; albums are one message; faults cost only a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import liveness
from audit_app.kernel.liveness import Observer
from audit_app.models import AuditEntry
from sessions_app.attachments import records, storage, sweeper
from sessions_app.channels.inbound import albums
from sessions_app.models import Attachment, ChannelAccount, InboundMessage, Turn
from tests.fakes.http_server import Fault
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.channels import add_telegram, add_webhook, settle, telegram, webhook
from tests.support.engine import EngineRig, until
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

BACKEND = "django.contrib.auth.backends.ModelBackend"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(500)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.channels.inbound.file_fetcher._PAUSES", (0.05, 0.05))


def document(number: int, file_id: str, **extra: object) -> dict[str, object]:
    file = {"file_id": file_id, "file_name": f"{file_id}.txt", "mime_type": "text/plain", **extra.pop("file", {})}  # type: ignore[dict-item]
    return private_update(number, "", document=file, **extra)


def photo(number: int, file_id: str, album: str = "", **extra: object) -> dict[str, object]:
    group = {"media_group_id": album} if album else {}
    return private_update(number, "", photo=[{"file_id": file_id}], **group, **extra)


def test_the_text_of_a_file_reaches_the_model(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("read",)), Reply(("again",)))
    platform.files["notes"] = "Grüße aus der Datei".encode()
    add_telegram(platform)
    telegram(document(1, "notes", caption="What does it say?"))
    assert settle(rig) == ["sent"]
    content = script.requests[0].messages[-1].content
    assert content.startswith("What does it say?") and "Grüße aus der Datei" in content and "notes.txt" in content
    row = Attachment.objects.get()
    assert (row.status, row.mime_type, row.size_bytes) == ("stored", "text/plain", 21)
    assert (Path(settings.DATA_DIR, "attachments") / row.path).read_bytes() == platform.files["notes"]
    assert Turn.objects.get(role="user").content == "What does it say?"
    telegram(private_update(2, "and now?"))
    assert settle(rig, 2) == ["sent"] * 2
    assert any("Grüße aus der Datei" in message.content for message in script.requests[1].messages[:-1]), (
        "it is history"
    )


def test_the_conversation_in_the_admin_shows_files_to_those_who_may_see_the_session(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    rig.agent(Reply(("nice",)))
    platform.files |= {"cat": PNG}
    add_telegram(platform)
    telegram(photo(1, "cat", caption="look"))
    assert settle(rig) == ["sent"]
    row = Attachment.objects.get()
    page, content = f"/admin/sessions_app/session/{row.turn.session_id}/change/", f"/api/attachments/{row.pk}/content"
    viewer = make_user("vera", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(content_type__app_label="sessions_app", codename="view_session"))
    browsers = {name: Client() for name in ("vera", "alice", "nobody")}
    browsers["vera"].force_login(viewer, BACKEND)
    browsers["alice"].force_login(rig.owner, BACKEND)
    assert f'<img src="{content}"' in browsers["vera"].get(page).content.decode()
    answer = browsers["vera"].get(content)
    assert (answer.content, answer.headers["Content-Type"]) == (PNG, "image/png")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert AuditEntry.objects.filter(action="SessionAccessed", actor=f"user:{viewer.pk}").count() == 1
    assert [browsers[name].get(content).status_code for name in ("alice", "nobody")] == [404, 401]
    Attachment.objects.update(path="")  # as retention leaves it
    assert content not in browsers["vera"].get(page).content.decode()
    assert browsers["vera"].get(content).status_code == 404


def test_files_of_one_name_are_both_stored_and_numbered(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("read",)), Reply(("again",)))
    platform.files |= {"old": b"the old one", "new": b"the new one"}
    add_telegram(platform)
    for number, file_id in enumerate(("old", "new"), start=1):
        telegram(document(number, file_id, file={"file_name": "notes.txt"}))
        settle(rig, number)
    assert [row.filename for row in Attachment.objects.order_by("id")] == ["notes.txt", "notes (2).txt"]
    stored = [
        (Path(settings.DATA_DIR, "attachments") / row.path).read_bytes() for row in Attachment.objects.order_by("id")
    ]
    assert stored == [b"the old one", b"the new one"]
    content = "".join(message.content for message in script.requests[1].messages)
    places = [content.index(text) for text in ("notes.txt", "the old one", "notes (2).txt", "the new one")]
    assert places == sorted(places)


def test_an_image_is_described_by_a_note(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("nice",)))
    platform.files["cat"] = PNG
    add_telegram(platform)
    telegram(photo(1, "cat"))
    assert settle(rig) == ["sent"]
    content = script.requests[0].messages[-1].content
    assert content.startswith("📎 image\n") and "image/png" in content and "cannot be shown" in content


@pytest.mark.parametrize(
    ("fault", "described"),
    [
        (Fault("status", 400, only="getFile", description="Bad Request: file is too big"), "file is too big"),
        (Fault("status", 404, only="/file/"), "status 404"),
        (Fault("status", 302, only="/file/"), "status 302"),
    ],
)
def test_a_file_that_cannot_be_fetched_is_reported(
    rig: EngineRig, platform: FakeTelegram, fault: Fault, described: str
) -> None:
    script = rig.agent(Reply(("pity",)))
    platform.files["notes"] = b"text"
    platform.faults.append(fault)
    add_telegram(platform)
    telegram(document(1, "notes", caption="look"))
    assert settle(rig) == ["sent"]
    assert "could not be fetched" in (content := script.requests[0].messages[-1].content) and described in content
    assert Attachment.objects.get().status == "failed"


def test_a_fault_that_passes_costs_nothing(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("fine",)))
    platform.files["notes"] = b"the text"
    platform.faults.extend([Fault("status", 500, only="getFile"), Fault("drop", only="/file/")])
    add_telegram(platform)
    telegram(document(1, "notes"))
    assert settle(rig) == ["sent"] and "the text" in script.requests[0].messages[-1].content


def test_a_file_that_is_announced_or_turns_out_too_large_is_not_taken(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = rig.agent(Reply(("ok",)), Reply(("ok",)))
    platform.files["big"] = bytes(3000)
    monkeypatch.setattr(records, "MOST_BYTES", 1000)
    add_telegram(platform)
    telegram(document(1, "big", file={"file_size": 3000}))
    assert settle(rig) == ["sent"] and not platform.downloads
    telegram(document(2, "big", file={"file_size": 3}))
    assert settle(rig, 2) == ["sent"] * 2
    assert all("it has more than" in request.messages[-1].content for request in script.requests)
    assert not list(Path(settings.DATA_DIR, "attachments").rglob("*.part"))


def test_a_full_disk_is_reported(rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch) -> None:
    script = rig.agent(Reply(("ok",)))
    monkeypatch.setattr(storage, "_LEAST_FREE_BYTES", 2**60)
    platform.files["notes"] = b"text"
    add_telegram(platform)
    telegram(document(1, "notes"))
    assert settle(rig) == ["sent"] and "the disk is full" in script.requests[0].messages[-1].content


def test_a_message_after_a_file_waits_for_it(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("first",)), Reply(("second",)))
    platform.files["notes"] = b"text"
    platform.faults.append(Fault("slow", seconds=0.4, only="/file/"))
    add_telegram(platform)
    telegram(document(1, "notes"))
    telegram(private_update(2, "and?"))
    assert settle(rig, 2) == ["sent"] * 2 and platform.chat(501) == ["first", "second"]


@contextmanager
def nobody_works(rig: EngineRig) -> Iterator[None]:
    """Let all parts of an album arrive in time, however slow the machine is."""
    rig.stop()
    yield
    rig.start()


def test_an_album_is_one_message(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("three",)))
    platform.files.update(dict.fromkeys(("a", "b", "c"), PNG))
    add_telegram(platform)
    with nobody_works(rig):
        for number, name in enumerate(("a", "b", "c")):
            update = photo(number, name, album="77", **({"caption": "Which is best?"} if name == "b" else {}))
            assert telegram(update) == telegram(update) == 200, "and repeated"
    assert settle(rig) == ["sent"]
    assert Run.objects.count() == 1 and Attachment.objects.filter(status="stored").count() == 3
    content = script.requests[0].messages[-1].content
    assert content.startswith("Which is best?") and content.count("[Attached image") == 3
    assert InboundMessage.objects.filter(run__isnull=False, reason="").count() == 3


def test_an_album_in_a_group_is_ours_when_any_part_of_it_is(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("seen",)))
    platform.files.update(dict.fromkeys(("a", "b", "c"), PNG))
    add_telegram(platform)
    mention = {"caption": "@komand_test_bot look", "caption_entities": [{"type": "mention", "offset": 0, "length": 16}]}
    with nobody_works(rig):
        for number, name in enumerate(("a", "b", "c")):
            extra = {"photo": [{"file_id": name}], "media_group_id": "5", **(mention if name == "b" else {})}
            telegram(group_update(number, "", **extra))
    assert settle(rig) == ["sent"]
    content = script.requests[0].messages[-1].content
    assert "\n\nlook" in content and content.count("[Attached image") == 3 and Run.objects.count() == 1


def misses_the_others_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate concurrent parts of an album: each looks for the others before any of them is stored."""
    look, looked = albums._find_begun, iter(range(100))
    monkeypatch.setattr(albums, "_find_begun", lambda arrival: look(arrival) if next(looked) else None)


@pytest.mark.parametrize("race", [True, False])
def test_parts_of_an_album_that_come_at_once_are_one_message(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch, race: bool
) -> None:
    script = rig.agent(Reply(("both",)))
    platform.files.update(a=PNG, b=PNG)
    add_telegram(platform)
    with nobody_works(rig):
        assert telegram(photo(1, "a", album="77")) == 200
        if race:
            misses_the_others_once(monkeypatch)
        assert telegram(photo(2, "b", album="77")) == telegram(photo(2, "b", album="77")) == 200
    assert settle(rig) == ["sent"]
    assert script.requests[0].messages[-1].content.count("[Attached image") == 2 and Run.objects.count() == 1


def test_a_part_left_aside_is_taken_along_when_the_album_turns_out_to_be_ours(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = rig.agent(Reply(("seen",)))
    platform.files.update(a=PNG, b=PNG)
    add_telegram(platform)
    mention = {"caption": "@komand_test_bot look", "caption_entities": [{"type": "mention", "offset": 0, "length": 16}]}
    with nobody_works(rig):
        telegram(group_update(1, "", photo=[{"file_id": "a"}], media_group_id="5", **mention))
        misses_the_others_once(monkeypatch)
        telegram(group_update(2, "", photo=[{"file_id": "b"}], media_group_id="5"))
    assert settle(rig) == ["sent"]
    assert script.requests[0].messages[-1].content.count("[Attached image") == 2
    assert not InboundMessage.objects.exclude(reason="").exists()


def test_an_album_that_is_not_for_us_is_left_alone(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, access="paired")
    telegram(group_update(1, "", photo=[{"file_id": "a"}], media_group_id="5"))
    assert not InboundMessage.objects.exists() and not platform.methods(), "a stranger's, in a group"
    ChannelAccount.objects.filter(pk=account.pk).update(access="open", updated_at=timezone.now())
    telegram(group_update(2, "", photo=[{"file_id": "b"}], media_group_id="6"))
    assert InboundMessage.objects.get().reason == "not_addressed"
    assert not Run.objects.exists() and not Attachment.objects.exists() and not platform.downloads


def test_what_comes_late_of_an_album_is_a_message_of_its_own(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    platform.files.update({"a": PNG, "b": PNG})
    add_telegram(platform)
    telegram(photo(1, "a", album="77"))
    assert settle(rig) == ["sent"]
    telegram(photo(2, "b", album="77"))
    assert settle(rig, 2) == ["sent"] * 2 and Run.objects.count() == 2


def test_a_callback_channel_fetches_by_guarded_urls(rig: EngineRig, receiver: WebhookReceiver) -> None:
    script = rig.agent(Reply(("ok",)))
    receiver.files["/notes"] = b"from the web"
    add_webhook(receiver)
    files = [
        {"url": f"{receiver.url}/notes", "filename": "../../etc/no\u202etes.txt"},
        {"url": "http://127.0.0.1:1/secret"},
        {"url": "http://169.254.169.254/latest"},
    ]
    assert webhook("look", "m1", attachments=files)[0] == 202
    assert settle(rig) == ["sent"]
    content = script.requests[0].messages[-1].content
    assert "from the web" in content and "file notes.txt" in content and content.count("may not be reached") == 2


def test_without_anybody_to_fetch_the_run_starts_when_its_time_is_over(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = rig.agent(Reply(("ok",)))
    monkeypatch.setattr(records, "FETCH_SECONDS", 0.5)
    monkeypatch.setattr(records, "list_due", lambda limit: [])
    add_telegram(platform)
    telegram(document(1, "notes", caption="look"))
    assert settle(rig) == ["sent"]
    assert "in time" in script.requests[0].messages[-1].content or "too long" in script.requests[0].messages[-1].content


def test_what_a_dead_process_was_fetching_is_fetched_anew(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("ok",)))
    platform.files["notes"] = b"text"
    add_telegram(platform)
    rig.stop()
    telegram(document(1, "notes"))
    assert records.claim(row := Attachment.objects.get(), uuid4()) and not records.claim(row, uuid4())

    class Others(Observer):
        def dead(self, owners: object) -> set:
            return {owner for owner in owners if owner != liveness.start("runs")}  # type: ignore[attr-defined]

    sweeper.sweep(Others())
    assert [due.pk for due in records.list_due(5)] == [row.pk]


def test_what_those_left_who_died_in_fetching_goes_with_the_file(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("ok",)))
    add_telegram(platform)
    rig.stop()
    telegram(document(1, "notes"))
    row = Attachment.objects.get()
    left = Path(settings.DATA_DIR, "attachments") / f"{storage.path_of(row.id)}.{uuid4().hex}.part"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half")
    Attachment.objects.update(until=timezone.now() - timedelta(seconds=6))
    sweeper.sweep(Observer())
    assert Attachment.objects.get().status == "failed" and not left.exists()


def test_old_files_go_and_their_text_stays(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("ok",)))
    platform.files["notes"] = b"text"
    add_telegram(platform)
    telegram(document(1, "notes"))
    settle(rig)
    path = Path(settings.DATA_DIR, "attachments") / Attachment.objects.get().path
    assert path.stat().st_mode & 0o077 == 0 or Path(settings.DATA_DIR, "attachments").stat().st_mode & 0o077 == 0
    rule = sweeper.OldFiles()
    assert rule.prune(10) == 0 and path.exists()
    Attachment.objects.update(created_at=timezone.now() - timedelta(days=31))
    assert rule.count() == 1 and rule.prune(10) == 1 and not path.exists()
    assert Attachment.objects.get().text == "text" and rule.prune(10) == 0


def test_a_message_without_text_and_files_is_answered_with_a_notice(rig: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "", dice={"emoji": "🎲", "value": 3}))
    assert settle(rig) == ["sent"] and "no dice" in platform.chat(501)[0]
    until(lambda: InboundMessage.objects.get().reason == "no_text")


def test_a_database_that_is_away_when_a_file_has_come_costs_no_file(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, errors = records.mark_stored, [OperationalError("away")]

    def mark_stored(*args: object) -> None:
        if errors:
            raise errors.pop()
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "mark_stored", mark_stored)
    script = rig.agent(Reply(("read",)))
    platform.files["notes"] = b"what the file says"
    add_telegram(platform)
    telegram(document(1, "notes"))
    assert settle(rig) == ["sent"] and "what the file says" in script.requests[0].messages[-1].content

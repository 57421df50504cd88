"""Chats that leave the page: exports, links for people without a login, forks; and the marks of the list."""

import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from audit_app.models import AuditEntry
from sessions_app import services
from sessions_app.chat_copies import share_links
from sessions_app.conversation import list_marks
from sessions_app.models import Attachment, Session, ShareLink, Turn
from sessions_app.rights import SHARE_CHATS
from tests.support.rest import RestCaller, make_execution, make_run, make_session, make_user
from tests.support.rights import make_operator
from tools_app.storage.artifacts import Writer, write_artifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

HTMX = {"HX-Request": "true"}
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def sharer() -> User:
    return make_operator("sharer", SHARE_CHATS)


@pytest.fixture
def page(sharer: User) -> Client:
    return log_in(sharer)


@pytest.fixture
def chat(sharer: User) -> Session:
    session = make_session(sharer)
    Session.objects.filter(pk=session.pk).update(title="Prices & plans")
    say(session, "What does it <b>cost</b>?", "It costs **12 EUR**.", call={"key": SECRET, "url": "https://a.example"})
    session.refresh_from_db()
    return session


def log_in(user: User) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def say(session: Session, question: str, answer: str, *, call: dict[str, Any] | None = None) -> Any:
    """Store an ended run with its turns, with a call and a question to the user if `call` is given. Return the run."""
    run, now = make_run(session), timezone.now()
    turns = [Turn(role="user", content=question)]
    if call:
        done = make_execution(run, status="Completed", arguments=call, output=json.dumps({"found": "a ``` fence"}))
        asked = make_execution(
            run,
            call_index=1,
            status="Completed",
            tool="ask_user",
            arguments={"question": "Which plan?"},
            output='{"answer": "Small"}',
        )
        names = [str(done.pk), str(asked.pk)]
        turns += [Turn(role="assistant", content="Let me see.", tool_calls=[{}, {}], tool_call_ids=names)]
        turns += [Turn(role="tool", content="12", tool_call_ids=[name]) for name in names]
    turns += [Turn(role="assistant", content=answer, is_answer=True)]
    for part, turn in enumerate(turns):
        turn.session, turn.run, turn.ordinal, turn.part, turn.created_at = session, run, run.ordinal, part, now
    Turn.objects.bulk_create(turns)
    return run


def share(page: Client, chat: Session, **fields: str) -> str:
    """Create a link and return its path."""
    shown = page.post(f"/chat/{chat.pk}/share", fields, headers=HTMX).content.decode()
    found = re.search(r'value="http://testserver(/share/[^"]+)"', shown)
    assert found, shown
    return found[1]


def test_a_chat_is_exported_as_markdown(page: Client, chat: Session) -> None:
    write_artifact(Writer(chat.pk), "out/plan.csv", b"a;b")
    answer = page.get(f"/chat/{chat.pk}/export?format=markdown&calls=1")
    text = answer.content.decode()
    assert answer["Content-Disposition"] == 'attachment; filename="prices-plans.md"'
    assert text.startswith("# Prices & plans\n") and "It costs **12 EUR**." in text
    assert "<summary>Tool call echo: completed</summary>" in text and "````json" in text, "a longer fence"
    assert "**Question:** Which plan?" in text and "**Answer:** Small" in text
    assert "- `out/plan.csv`, 3 bytes" in text
    assert SECRET not in text
    plain = page.get(f"/chat/{chat.pk}/export").content.decode()
    assert "Tool call" not in plain and "**Answer:** Small" in plain and "Let me see." in plain


def test_a_chat_is_exported_as_json_over_rest(sharer: User, chat: Session) -> None:
    program, path = RestCaller(sharer), f"sessions/{chat.pk}/export?format=json"
    exported = program.get(path).data
    whole = json.loads(exported)
    [turn] = whole["turns"]
    assert (whole["format"], whole["title"], turn["message"]["text"]) == (
        "komand-chat",
        "Prices & plans",
        "What does it <b>cost</b>?",
    )
    assert [part["kind"] for part in turn["answer"]] == ["text", "toolCall", "question", "text"]
    assert turn["answer"][1]["output"] == {"found": "a ``` fence"} and SECRET not in exported.decode()
    short = json.loads(program.get(f"{path}&toolCalls=false").data)
    assert [part["kind"] for part in short["turns"][0]["answer"]] == ["text", "question", "text"]
    assert program.get(f"sessions/{chat.pk}/export?format=pdf").status == 400


def test_a_shared_chat_is_read_without_a_login_until_it_is_revoked(page: Client, chat: Session) -> None:
    path = share(page, chat, days="7", calls="1")
    visitor = Client()
    answer = visitor.get(path)
    text = answer.content.decode()
    assert answer.status_code == 200 and "<strong>12 EUR</strong>" in text
    assert "What does it &lt;b&gt;cost&lt;/b&gt;?" in text and "Which plan?" in text and "call-name" in text
    assert SECRET not in text and "<script" not in text
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy and "form-action 'none'" in policy
    assert answer["X-Robots-Tag"] == "noindex, nofollow" and answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"] and "Set-Cookie" not in answer
    token = path.rpartition("/")[2]
    row = ShareLink.objects.get()
    assert token not in str(ShareLink.objects.values()) + str(list(AuditEntry.objects.values()))
    shown = page.post(f"/chat/shares/{row.pk}/revoke", headers=HTMX).content.decode()
    assert "Revoke" not in shown
    assert visitor.get(path).status_code == 410
    actions = list(
        AuditEntry.objects.filter(action__startswith="ShareLink").order_by("id").values_list("action", flat=True)
    )
    assert actions == ["ShareLinkCreated", "ShareLinkRevoked"]
    page.post(f"/chat/shares/{row.pk}/revoke", headers=HTMX)
    assert AuditEntry.objects.filter(action="ShareLinkRevoked").count() == 1


def test_a_link_shows_the_chat_as_it_was(page: Client, chat: Session) -> None:
    write_artifact(Writer(chat.pk), "out/before.txt", b"before")
    path = share(page, chat)
    say(chat, "And tomorrow?", "A later answer.")
    changed = write_artifact(Writer(chat.pk), "out/later.txt", b"later")
    text = Client().get(path).content.decode()
    assert "12 EUR" in text and "later" not in text and "out/before.txt" in text
    assert "call-name" not in text and "/files/" not in text, "neither calls nor files are shared"
    Turn.objects.filter(session=chat).update(is_off_path=True)
    assert "12 EUR" in Client().get(path).content.decode(), "its branch, whichever is active"
    Turn.objects.filter(session=chat).update(branch=-1)
    assert "12 EUR" not in Client().get(path).content.decode(), "what was removed is not shown"
    assert Client().get(f"{path}/files/{changed.id}").status_code == 404


def test_files_are_downloaded_only_if_they_are_shared(page: Client, chat: Session) -> None:
    file = write_artifact(Writer(chat.pk), "out/page.html", b"<script>alert(1)</script>")
    path = share(page, chat, files="1")
    assert f"{path}/files/{file.id}" in Client().get(path).content.decode()
    answer = Client().get(f"{path}/files/{file.id}")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer["Content-Type"] == "application/octet-stream" and answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"] == 'attachment; filename="page.html"'
    other = write_artifact(Writer(make_session(make_user("eve"), key="k").pk), "out/a.txt", b"a")
    assert Client().get(f"{path}/files/{other.id}").status_code == 404
    write_artifact(Writer(chat.pk), "out/page.html", b"changed since")
    assert Client().get(f"{path}/files/{file.id}").status_code == 404
    assert Client().get(f"{share(page, chat)}/files/{file.id}").status_code == 404


@pytest.mark.parametrize("end", ["expired", "deleted", "right", "inactive", "owner"])
def test_a_link_ends(page: Client, chat: Session, sharer: User, end: str) -> None:
    path = share(page, chat)
    match end:
        case "expired":
            ShareLink.objects.update(expires_at=timezone.now())
        case "deleted":
            services.delete_session(chat)
        case "right":
            sharer.user_permissions.clear()
        case "inactive":
            User.objects.filter(pk=sharer.pk).update(is_active=False)
        case "owner":
            Session.objects.filter(pk=chat.pk).update(owner=make_user("next"))
    answer = Client().get(path)
    assert answer.status_code == 410 and "12 EUR" not in answer.content.decode()
    assert answer["X-Robots-Tag"] == "noindex, nofollow" and "script-src" not in answer["Content-Security-Policy"]


def test_a_visitor_finds_nothing_by_guessing(page: Client, chat: Session) -> None:
    path = share(page, chat)
    for guess in (f"/share/{chat.pk}", f"/share/{ShareLink.objects.get().pk}", f"{path}x", path[:-1], "/share/x"):
        answer = Client().get(guess)
        assert answer.status_code == 404 and "12 EUR" not in answer.content.decode()
    assert Client().post(path).status_code == 405


def test_sharing_takes_a_right(chat: Session, sharer: User, page: Client) -> None:
    sharer.user_permissions.clear()
    assert "You may not share chats" in page.get(f"/chat/{chat.pk}/leave").content.decode()
    assert page.post(f"/chat/{chat.pk}/share", {}).status_code == 403
    answer = RestCaller(sharer).post(f"sessions/{chat.pk}/shares", {})
    assert (answer.status, answer.meta["right"]) == (403, SHARE_CHATS.permission)
    assert page.get(f"/chat/{chat.pk}/export").status_code == 200, "exports take none"
    assert not ShareLink.objects.exists()


def test_links_over_rest_and_in_the_account(chat: Session, sharer: User, page: Client) -> None:
    program = RestCaller(sharer)
    made = program.post(f"sessions/{chat.pk}/shares", {"days": 1, "toolCalls": True})
    assert made.status == 201 and made.data["url"].startswith("http://testserver/share/")
    assert program.post(f"sessions/{chat.pk}/shares", {"days": 3650}).status == 400
    [listed] = program.get("shares").data
    assert listed == {name: value for name, value in made.data.items() if name != "url"}
    assert program.get(f"sessions/{chat.pk}/shares").data == [listed]
    other = make_operator("other", SHARE_CHATS)
    assert RestCaller(other).delete(f"shares/{listed['shareId']}").status == 404
    assert (
        RestCaller(other).get("shares").data == [] and RestCaller(other).get(f"sessions/{chat.pk}/shares").status == 404
    )
    assert "Prices &amp; plans" in page.get("/account/shared").content.decode()
    page.post(f"/account/shared/{listed['shareId']}/revoke")
    assert program.get("shares").data == [] and "No chat is shared" in page.get("/account/shared").content.decode()


def test_a_chat_has_a_limit_of_links(chat: Session, sharer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_links, "MOST_LINKS", 1)
    program = RestCaller(sharer)
    assert program.post(f"sessions/{chat.pk}/shares", {}).status == 201
    assert program.post(f"sessions/{chat.pk}/shares", {}).meta["code"] == "too_many_links"


def test_a_fork_goes_on_from_an_answer(page: Client, chat: Session, sharer: User) -> None:
    first = Turn.objects.filter(session=chat, is_answer=True).get()
    Turn.objects.filter(session=chat, role="user").update(attached="File notes.txt: 12")
    sent = Turn.objects.get(session=chat, role="user")
    row = {
        "kind": "file",
        "filename": "notes.txt",
        "status": "stored",
        "created_at": timezone.now(),
        "position": 0,
        "until": timezone.now(),
    }
    Attachment.objects.create(turn=sent, **row)
    say(chat, "And tomorrow?", "A later answer.")
    answer = page.post(f"/chat/runs/{first.run_id}/fork")
    fork = Session.objects.get(pk=answer["Location"].rpartition("/")[2])
    assert (fork.title, fork.owner, fork.next_ordinal) == ("Fork of Prices & plans", sharer, 1)
    copied = list(fork.turns.values_list("role", "content", "attached"))
    assert copied == list(chat.turns.filter(ordinal=first.ordinal).values_list("role", "content", "attached"))
    assert Attachment.objects.filter(turn__session=fork).count() == 1
    shown = page.get(f"/chat/{fork.pk}").content.decode()
    assert "12 EUR" in shown and "notes.txt" in shown and "A later answer" not in shown
    assert chat.turns.count() == 7, "the source stays"
    origins = [turn.origins for turn in fork.turns.filter(role="assistant")]
    assert all(value and "file:attachment" in value for value in origins), origins
    [entry] = AuditEntry.objects.filter(action="SessionForked")
    assert entry.details["source"] == str(chat.pk)


def test_a_fork_takes_a_message_of_ones_own_that_is_answered(chat: Session, sharer: User) -> None:
    program, other = RestCaller(sharer), RestCaller(make_user("bob"))
    run_id = Turn.objects.filter(session=chat, is_answer=True).get().run_id
    made = program.post(f"sessions/{chat.pk}/fork", {"runId": str(run_id)})
    assert made.status == 201 and made.data["title"] == "Fork of Prices & plans"
    assert program.post(f"sessions/{chat.pk}/fork", {"runId": str(uuid4())}).status == 404
    assert other.post(f"sessions/{chat.pk}/fork", {"runId": str(run_id)}).status == 404
    Turn.objects.filter(session=chat, is_answer=True).update(is_answer=False)
    assert program.post(f"sessions/{chat.pk}/fork", {"runId": str(run_id)}).meta["code"] == "not_answered"


def test_pinned_chats_come_first(page: Client, sharer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = make_session(sharer, key="old"), make_session(sharer, key="new")
    Session.objects.filter(pk=old.pk).update(title="Old", last_active_at=timezone.now() - timedelta(days=9))
    Session.objects.filter(pk=new.pk).update(title="New")
    shown = page.post(f"/chat/{old.pk}/mark", {"as": "pinned"}, headers=HTMX).content.decode()
    assert shown.index("<h2>Pinned</h2>") < shown.index("Old") < shown.index("New") and shown.count("Old<") == 1
    monkeypatch.setattr(list_marks, "MOST_PINNED", 1)
    assert page.post(f"/chat/{new.pk}/mark", {"as": "pinned"}, headers=HTMX).status_code == 409
    shown = page.post(f"/chat/{old.pk}/mark", {"as": "unpinned"}, headers=HTMX).content.decode()
    assert "Pinned" not in shown
    assert page.post(f"/chat/{old.pk}/mark", {"as": "loved"}).status_code == 400
    assert log_in(make_user("eve")).post(f"/chat/{old.pk}/mark", {"as": "pinned"}).status_code == 404


def test_a_chat_is_unread_once_something_was_written_since_its_reader_left(page: Client, chat: Session) -> None:
    def shows_unread() -> bool:
        return "Unread:" in page.get("/chat/sessions", headers=HTMX).content.decode()

    assert not shows_unread(), "it was never left"
    assert page.post(f"/chat/{chat.pk}/mark", {"as": "read"}).status_code == 204
    assert not shows_unread()
    Session.objects.filter(pk=chat.pk).update(last_active_at=timezone.now() + timedelta(seconds=1))
    assert shows_unread()
    assert "Unread:" not in page.get(f"/chat/sessions?current={chat.pk}", headers=HTMX).content.decode()
    page.post(f"/chat/{chat.pk}/mark", {"as": "unread"})
    Session.objects.filter(pk=chat.pk).update(last_active_at=chat.last_active_at)
    assert shows_unread()
    page.get(f"/chat/{chat.pk}")
    assert not shows_unread(), "it was opened"

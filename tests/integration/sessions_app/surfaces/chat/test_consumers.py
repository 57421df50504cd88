"""The page's WebSocket: a real engine on a real Valkey, followed by a model of the page; and access to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as Login
from django.db import OperationalError, transaction
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.channels.inbound import turn_texts
from sessions_app.identity import request_admission
from sessions_app.identity.api_keys import create_api_key
from sessions_app.live_view.viewer import Viewer
from sessions_app.models import ChannelAccount, InboundMessage, Session, Turn
from sessions_app.services import NewMessage, cancel_session_runs, delete_session, receive
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.chat import consumers
from tests.integration.sessions_app.surfaces.chat.chat_tab import Tab, cookie_of
from tests.integration.sessions_app.surfaces.chat.page_model import PageModel
from tests.support.conditions import happens
from tests.support.engine import EngineRig
from tests.support.rest import make_session, make_user
from tests.support.rights import grant
from tools_app.rights import DECIDE_APPROVALS
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def session(valkey: object) -> Session:
    return make_session(make_user("alice"))


async def test_a_run_is_shown_from_the_message_to_the_stored_answer(rig: EngineRig) -> None:
    call = ToolCall("c", "echo", '{"text": "hi"}')
    await in_db(rig.agent, Reply(("let me ", "see"), tool_calls=(call,)), Reply(("so\n\n", "it **is**")))
    session = await in_db(make_session, rig.owner)
    async with Tab(session, await in_db(cookie_of, rig.owner)) as tab:
        accepted = await in_db(_send, rig, session, "m-1")
        acts = [act for message in await tab.until("answer") for act in message.get("acts", ())]
    kinds = [act["do"] for act in acts if act["do"] != "status"]
    assert kinds[0] == "turn" and acts[0]["message"] == "m-1"
    assert kinds.index("text") < kinds.index("call") < kinds.index("change") < kinds.index("answer")
    answer = tab.page.answers[str(accepted.run_id)]
    assert answer.index("let me see") < answer.index("call-name") < answer.index("it <strong>is</strong>")
    assert acts[-1]["say"] == "", "screen readers read the shown text"


def _send(rig: EngineRig, session: Session, message_id: str = "") -> Any:
    inbound = NewMessage(
        session.channel, session.account_id, session.sender_id, "Alice", "hello", message_id=message_id
    )
    return receive(inbound, owner=rig.owner, session=session)


async def test_resuming_after_any_message_shows_the_same_page(rig: EngineRig) -> None:
    call = ToolCall("c", "echo", '{"text": "hi"}')
    words = tuple(f"word{number} " + ("\n\n" if number % 5 == 4 else "") for number in range(23))
    await in_db(
        rig.agent, Reply(words, tool_calls=(call,), delay_seconds=0.02), Reply(words, delay_seconds=0.02, hangs=True)
    )
    session = await in_db(make_session, rig.owner)
    cookie = await in_db(cookie_of, rig.owner)
    async with Tab(session, cookie) as whole:
        await in_db(_send, rig, session)
        messages = await _until_shown(whole, "word22")
        for cut in range(0, len(messages), 3):
            page = PageModel()
            for message in messages[:cut]:
                page.apply(message)
            async with Tab(session, cookie, page.cursor) as again:
                again.page = page
                await _until_shown(again, "word22")
            assert again.page.shown == whole.page.shown
    await in_db(cancel_session_runs, session, reason="Stopped.")


async def _until_shown(tab: Tab, last: str) -> list[dict[str, Any]]:
    """Return all messages until the second step's text ends with that word."""
    messages = []
    while not any(last in getattr(parts.get("text 1"), "open", "") for parts in tab.page.parts.values()):
        message = await tab.receive()
        assert message is not None
        messages.append(message)
    return messages


async def test_a_message_added_to_a_run_joins_its_question(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("so",), hangs=True), busy_policy="steer")
    session = await in_db(make_session, rig.owner)
    async with Tab(session, await in_db(cookie_of, rig.owner)) as tab:
        await in_db(_send, rig, session)
        await tab.until("text")
        await in_db(_send, rig, session, "m-2")
        acts = [act for message in await tab.until("turn") for act in message.get("acts", ())]
    assert len(tab.page.turn_views) == 1
    (again,) = (act for act in acts if act["do"] == "turn")
    assert again["message"] == "m-2" and again["html"].count("hello") == 2
    await in_db(cancel_session_runs, session, reason="Stopped.")


def _change(turn_id: UUID, text: str) -> None:
    """Change the text of a turn as an edit of its channel message does."""
    account, _ = ChannelAccount.objects.get_or_create(channel="fake", account_id="one")
    now = timezone.now()
    times = {"sent_at": now, "received_at": now}
    InboundMessage.objects.update_or_create(
        turn_id=turn_id, account=account, defaults={"text": text}, create_defaults={"text": text, **times}
    )
    with transaction.atomic():
        turn_texts.write(Turn.objects.get(pk=turn_id))


async def test_each_change_of_a_text_replaces_the_question(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("so",), hangs=True))
    session = await in_db(make_session, rig.owner)
    async with Tab(session, await in_db(cookie_of, rig.owner)) as tab:
        accepted = await in_db(_send, rig, session)
        await tab.until("text")
        for text in ("heloo", "hello there"):
            await in_db(_change, accepted.turn_id, text)
            acts = [act for message in await tab.until("turn") for act in message.get("acts", ())]
            (shown,) = (act for act in acts if act["do"] == "turn")
            assert f">{text}</div>" in shown["html"]
    await in_db(cancel_session_runs, session, reason="Stopped.")


async def test_a_page_gets_a_message_when_it_is_connected(session: Session) -> None:
    async with Tab(session, await in_db(cookie_of, session.owner), "0") as tab:
        assert await tab.receive() == {}


@pytest.mark.parametrize("cursor", ["", "0", "7", "nonsense", "1.2-3", "9" * 30, "-1", "%00"])
async def test_any_cursor_is_accepted(session: Session, cursor: str) -> None:
    async with Tab(session, await in_db(cookie_of, session.owner), cursor) as tab:
        assert await tab.receive() == {}
        assert await tab.socket.receive_nothing(0.1)


async def test_the_socket_requires_a_login(session: Session) -> None:
    for cookie in ("", f"{settings.SESSION_COOKIE_NAME}=made-up"):
        headers = {} if cookie else {"origin": "http://localhost"}
        async with Tab(session, cookie, **headers) as tab:
            assert await tab.receive() is None
            assert tab.close_code == consumers.NOT_LOGGED_IN


async def test_the_socket_refuses_api_keys(session: Session) -> None:
    made = await in_db(create_api_key, session.owner, "test", scopes=["all"])
    async with Tab(session, authorization=f"Bearer {made.key}") as tab:
        assert await tab.receive() is None
        assert tab.close_code == consumers.NOT_LOGGED_IN


async def test_sessions_of_other_users_cannot_be_watched(session: Session) -> None:
    cookie = await in_db(cookie_of, await in_db(make_user, "bob"))
    async with Tab(session, cookie) as tab:
        assert await tab.receive() is None
        assert tab.close_code == consumers.NOT_YOURS
    session.id = uuid4()
    async with Tab(session, cookie) as tab:
        assert await tab.receive() is None
        assert tab.close_code == consumers.NOT_YOURS


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://localhost:81",
        "http://evil-localhost",
        "",
    ],
)
async def test_a_foreign_page_cannot_watch_with_my_login(session: Session, origin: str) -> None:
    tab = Tab(session, await in_db(cookie_of, session.owner), origin=origin)
    accepted, _ = await tab.socket.connect(timeout=60)
    assert not accepted


async def _closed(tab: Tab) -> int | None:
    async with asyncio.timeout(60):
        while await tab.receive() is not None:
            pass
    return tab.close_code


def _expire_logins() -> None:
    Login.objects.update(expire_date=timezone.now())


def _deactivate_users() -> None:
    User.objects.update(is_active=False)


@pytest.mark.parametrize("end", [Login.objects.all().delete, _expire_logins, _deactivate_users])
async def test_the_stream_ends_with_the_login(
    session: Session, end: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        assert await tab.receive() == {}
        await in_db(end)
        assert await _closed(tab) == consumers.NOT_LOGGED_IN


async def test_deleting_the_session_ends_the_stream(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        await in_db(delete_session, session)
        assert await _closed(tab) == consumers.NOT_YOURS


async def test_a_viewer_stays_while_its_access_cannot_be_checked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    looks: list[Any] = []

    def away(principals: Any) -> Any:
        looks.append(principals)
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(request_admission, "find_refusals", away)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        assert await tab.receive() == {}
        await happens(lambda: len(looks) > 2)
        message = NewMessage.into(session, "hello")
        await in_db(receive, message, owner=session.owner, session=session)
        assert (await tab.receive() or {}).get("acts"), "it is served as before"


async def test_the_page_gets_a_heartbeat(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.05)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        assert [await tab.receive() for _ in range(3)] == [{}, {}, {}]


async def test_a_right_counts_for_an_open_page_until_it_is_taken_away(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval card offers the decisions that the viewer may make when it is shown."""
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    owner = session.owner
    await in_db(grant, owner, DECIDE_APPROVALS)
    sockets: list[consumers.ChatSocket] = []
    admit = consumers.ChatSocket._admit

    def remember(socket: consumers.ChatSocket) -> None:
        admit(socket)
        sockets.append(socket)

    monkeypatch.setattr(consumers.ChatSocket, "_admit", remember)
    async with Tab(session, await in_db(cookie_of, owner)) as tab:
        assert await tab.receive() == {}
        frames = await in_db(consumers.PageFrames, lambda: sockets[0].principal, session)
        assert await in_db(frames.allowed_decisions)
        await in_db(owner.user_permissions.clear)

        async def is_withdrawn() -> bool:
            return not await in_db(frames.allowed_decisions)

        await happens(is_withdrawn)


async def test_a_slow_viewer_is_disconnected_and_may_resume(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_frames(viewer: Viewer) -> AsyncIterator[Any]:
        for frame in ():
            yield frame

    monkeypatch.setattr(Viewer, "frames", no_frames)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        assert await _closed(tab) == consumers.TOO_SLOW


async def test_an_error_disconnects_the_page_which_may_resume(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(viewer: Viewer) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Viewer, "frames", broken)
    async with Tab(session, await in_db(cookie_of, session.owner)) as tab:
        assert await _closed(tab) == consumers.FAILED
    assert "the socket of a viewer" in caplog.text

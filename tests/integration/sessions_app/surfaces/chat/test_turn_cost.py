"""The cost of a turn on the page: statements that are built anew, which take longer than their execution."""

import pytest
from django.test import Client

from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import hooks
from audit_app.kernel.database import in_db
from sessions_app.models import Session
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.chat import queries
from tests.integration.sessions_app.surfaces.chat.chat_tab import Tab, cookie_of
from tests.support.built_statements import built_statements
from tests.support.engine import EngineRig
from tests.support.rest import make_session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MOST_BUILT = 0


@pytest.mark.parametrize("thought", ["", "That is a greeting."])
def test_the_end_of_a_plain_answer_builds_no_statement(rig: EngineRig, thought: str) -> None:
    rig.agent(*[Reply(("Hi ", "there"), reasoning=thought)] * 2)
    sent = [rig.send() for _ in range(2)]
    for accepted in sent:
        rig.wait(accepted.run_id)
    rig.stop()  # its background work builds statements, too
    session = Session.objects.get(pk=sent[0].session_id)
    for accepted in sent:
        with built_statements() as built:
            view = queries.find_turn_view(session, accepted.run_id)
    assert view is not None and (thought in str(view.parts))
    assert bool(built) == bool(thought), built  # an answer with details reads them


async def test_a_turn_of_the_page_builds_few_statements(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "sweeps", [])  # what other parts do each second, however long the turn takes
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 600)
    monkeypatch.setattr("audit_app.chain.worker._PAUSE_SECONDS", 600)
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 600)
    await in_db(rig.agent, *[Reply(("Hi ", "there"))] * 5)
    session = await in_db(make_session, rig.owner)
    cookie = await in_db(cookie_of, rig.owner)
    browser = Client(headers={"cookie": cookie, "HX-Request": "true"})

    def send() -> None:
        assert browser.post(f"/chat/{session.id}/messages", {"text": "Hi"}).status_code == 200

    def refresh_sidebar() -> None:
        assert browser.get("/chat/sessions", {"current": str(session.id)}).status_code == 200

    async def turn() -> None:
        async with Tab(session, cookie) as tab:
            await tab.receive()
            await in_db(send)
            await tab.until("answer")
        await in_db(refresh_sidebar)

    await turn()
    await turn()
    turns = []
    for _ in range(3):  # a loop of the background, such as retention, may fall into one of them
        with built_statements() as built:
            await turn()
        turns.append(list(built))
    assert len(min(turns, key=len)) <= MOST_BUILT, turns

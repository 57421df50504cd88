"""The command /agents in a chat: it lists workstreams, shows one, and writes to one or several of them, once."""

from uuid import UUID

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.services import NewChild, start_child
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.ids import new_id
from audit_app.models import AuditEntry
from sessions_app.models import Delivery
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.support.channels import add_telegram, telegram
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def root_id(idle: EngineRig, platform: FakeTelegram) -> UUID:
    """Return the queued run of a chat's message."""
    idle.agent(Reply(("fine",)))
    add_telegram(platform)
    telegram(private_update(1, "one"))
    return Run.objects.get().pk


def launch(parent_id: UUID, name: str, title: str) -> Run:
    return start_child(NewChild(new_id(), parent_id, name, ChildSpec(title, "Work.")))


def say(number: int, text: str) -> str:
    """Send a message, and return the newest reply."""
    telegram(private_update(number, text))
    return str(Delivery.objects.order_by("-id").values_list("text", flat=True)[0])


def messages(run: Run) -> list[str]:
    return list(run.messages.filter(kind="person").values_list("text", flat=True))


def test_workstreams_are_listed_by_numbers_that_stay(root_id: UUID) -> None:
    assert say(2, "/agents") == "No workstream is working here."
    prices, news = launch(root_id, "prices", "Prices"), launch(root_id, "news", "News")
    launch(prices.pk, "deep", "Deep `one`")
    Run.objects.filter(pk=news.pk).update(status="waiting", waiting_on="input")
    listed = say(3, "/agents").splitlines()
    assert listed[:3] == [
        "• 1 Prices: planning",
        "• 2 News: waiting for your answer",
        "• 3 Prices › Deep 'one': planning",
    ]
    assert say(4, "/agents 1 stop") == "Stopped: 1."
    assert [line for line in say(5, "/agents").splitlines() if line.startswith("•")] == [listed[1]]
    assert say(6, "/agents 1").startswith("1 Prices: canceled")
    assert "There is no workstream 9." in say(7, "/agents 2,9 Hi") and not messages(news)
    assert "/agents 2 TEXT" in say(8, "/agents what")


def test_a_chat_writes_to_workstreams_pauses_and_resumes_them_once(root_id: UUID) -> None:
    a, b, c = (launch(root_id, name, name.upper()) for name in "abc")
    for _ in range(2):
        say(2, "/agents 2 Look in May.\nAnd in June.")
    assert (messages(a), messages(b)) == ([], ["Look in May.\nAnd in June."])
    assert say(3, "/agents 2 pause") == "Paused: 2."
    b.refresh_from_db()
    assert (b.is_paused, b.paused_by) == (True, "sender:Telegram:501")
    assert "2 B: paused" in say(4, "/agents 2")
    assert say(5, "/agents 2 Resume") == "Resumed: 2."
    say(6, "/agents 3 stop")
    assert say(7, "/agents 1, 3 All of you") == "Sent to: 1.\n3 C: The workstream c has ended."
    assert messages(a) == ["All of you"] and AuditEntry.objects.filter(action="WorkstreamSteered").count() == 4
    launch(root_id, "d", "D")
    assert say(8, "/agents 1-2, 4 steer Be brief") == "Steered: 1, 2, 4."
    assert a.messages.filter(kind="directive", text__contains="Be brief").count() == 1
    assert "There is no workstream 5." in say(9, "/agents 3-90 Hi") and "At most 200" in say(10, "/agents 1-999999")
    assert say(11, "/agents all stop") == "Stopped: 1, 2, 4."
    assert Run.objects.filter(ended_at=None).count() == 1


def test_another_chat_has_no_access_to_them(root_id: UUID) -> None:
    child = launch(root_id, "a", "A")
    telegram(group_update(2, "/agents 1 Hi"))
    assert not messages(child)
    assert Delivery.objects.order_by("-id")[0].text == "No workstream is working here."

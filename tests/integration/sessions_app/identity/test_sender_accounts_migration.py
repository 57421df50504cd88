"""The migration of actors of senders: moves what is certainly of one account, leaves what may be of several people."""

from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import transaction
from django.utils import timezone

from agents_app.models import DailyUsage, Run
from audit_app.kernel.ids import new_id
from sessions_app.conversation.session_key import parse_key
from sessions_app.conversation.sessions import open_new
from sessions_app.identity import linked_memories
from sessions_app.models import ChannelAccount, Schedule, SenderLink, Session
from tests.support.rest import make_agent, make_user
from tests.support.schedules import make_schedule
from tools_app.models import Memory
from tools_app.storage import memories

migration = import_module("sessions_app.migrations.0038_sender_accounts")

pytestmark = pytest.mark.django_db(transaction=True)


def opened(key: str) -> Session:
    session, _ = open_new(parse_key(key), None, "Zoë", make_agent())
    return session


def ran(session: Session, actor: str) -> UUID:
    ordinal = Run.objects.filter(conversation_id=session.pk).count()
    given = {
        "conversation_id": session.pk,
        "session_key": session.key,
        "ordinal": ordinal,
        "created_at": timezone.now(),
    }
    return Run.objects.create(agent=session.agent, actor=actor, **given).pk


def remember(actor: str, key: str = "health", run: UUID | None = None, text: str = "asthma") -> None:
    memories.store(memories.Holder("default", actor), memories.Written(key, text, run or new_id()))


def add_account(channel: str, account_id: str) -> ChannelAccount:
    return ChannelAccount.objects.create(channel=channel, account_id=account_id)


def migrate() -> None:
    migration.name_accounts(apps, None)


def actors() -> list[str]:
    return sorted(Memory.objects.values_list("actor", flat=True))


@pytest.mark.parametrize(
    ("accounts", "keys", "expected"),
    [
        pytest.param(["web/a"], [], "Web/a", id="the only account"),
        pytest.param(["web/a", "web/b"], ["Web:a:42"], "Web/a", id="written at one of two"),
        pytest.param(["web/a", "web/b"], ["Web:a:42", "Web:b:7"], "Web/a", id="others at the other"),
        pytest.param(["web/b"], ["Web:a:42"], "Web/a", id="the account was deleted"),
        pytest.param([], ["Web:a:42", "Webhook:b:42"], "Web/a", id="the id at another channel"),
        pytest.param(["web/a", "web/b"], ["Web:a:42", "Web:b:42"], "Web", id="written at both"),
        pytest.param(["web/a", "web/b"], [], "Web", id="unknown"),
        pytest.param(["web/a"], ["Web:b:7"], "Web", id="perhaps at one that was deleted"),
        pytest.param([], [], "Web", id="no account"),
    ],
)
def test_memories_go_to_the_sender_at_the_only_account_that_it_can_be(
    accounts: list[str], keys: list[str], expected: str
) -> None:
    for name in accounts:
        add_account(*name.split("/"))
    for key in keys:
        opened(key)
    remember("sender:Web:42")
    remember("user:7")
    for _ in range(2):
        migrate()
        assert actors() == [f"sender:{expected}:42", "user:7"]


def test_memories_of_groups_tell_where_they_were_written() -> None:
    for name in ("one", "two"):
        add_account("slack", name)
    group, sender = opened("Slack:two:C1"), "sender:Slack:U1"
    remember(sender, "team", ran(group, sender))
    remember("sender:Slack:U2", "team", ran(group, sender))
    opened("Slack:one:U2")
    migrate()
    assert actors() == ["sender:Slack/two:U1", "sender:Slack:U2"]


def test_what_a_platform_proves_and_what_has_an_account_stays() -> None:
    for name in ("one", "two"):
        add_account("telegram", name)
        opened(f"Telegram:{name}:501")
        add_account("web", name)
    for actor in ("sender:Telegram:501", "sender:Telegram:7", "sender:Web/one:42"):
        remember(actor)
    migrate()
    assert actors() == ["sender:Telegram:501", "sender:Telegram:7", "sender:Web/one:42"]


def test_moved_memories_are_found_again_and_none_is_replaced() -> None:
    add_account("web", "a")
    named = memories.Holder("default", "sender:Web/a:42")
    remember("sender:Web:42", "diet", text="vegetarian")
    remember("sender:Web:42", text="written before")
    remember(named.actor, text="written since")
    migrate()
    assert actors() == ["sender:Web/a:42", "sender:Web/a:42", "sender:Web:42"]
    memories.index_missing()
    assert [row.key for row in memories.recall(named, "vegetarian", limit=9)] == ["diet"]
    assert Memory.objects.get(actor=named.actor, key="health").text == "written since"


def test_schedules_and_usage_follow_their_sessions() -> None:
    keys = ("Web:a:42", "Web:b:42", "Telegram:one:42")
    for number, key in enumerate(keys):
        channel, session = key.split(":")[0], opened(key)
        make_schedule(None, f"report-{number}", session=session)
        Schedule.objects.filter(session=session).update(created_by=f"sender:{channel}:42")
        use(session, f"sender:{channel}:42")
    use(Session.objects.get(key="Web:b:42"), "user:7")
    for _ in range(2):
        migrate()
        created = Schedule.objects.order_by("task_id").values_list("created_by", flat=True)
        assert list(created) == ["sender:Web/a:42", "sender:Web/b:42", "sender:Telegram:42"]
        used = sorted(DailyUsage.objects.values_list("actor", flat=True))
        assert used == ["sender:Telegram:42", "sender:Web/a:42", "sender:Web/b:42", "user:7"]


def use(session: Session, actor: str, **more: Any) -> None:
    given = {"day": timezone.now().date(), "agent_id": "default", "provider": "p", "model": "m", **more}
    DailyUsage.objects.create(conversation_id=session.pk, actor=actor, **given)


def test_usage_that_an_old_process_counts_later_is_no_conflict() -> None:
    session = opened("Web:a:42")
    use(session, "sender:Web:42")
    migrate()
    use(session, "sender:Web:42")
    migrate()
    assert sorted(DailyUsage.objects.values_list("actor", flat=True)) == ["sender:Web/a:42", "sender:Web:42"]


def test_a_run_that_was_stored_before_reads_what_is_of_its_account() -> None:
    session = opened("Web:a:42")
    remembered_as = linked_memories.LinkedSenders().remembered_as
    assert remembered_as(session.pk, "sender:Web:42") == "sender:Web/a:42"
    assert remembered_as(session.pk, "sender:Web/a:42") == "sender:Web/a:42"
    group = opened("Slack:two:C1")
    assert remembered_as(group.pk, "sender:Slack:U1") == "sender:Slack/two:U1"


def test_linking_gives_the_user_what_stayed_and_was_written_in_the_own_chat() -> None:
    user = make_user("ada")
    here, there = (opened(f"Sms:{name}:+49170") for name in ("a", "b"))
    account = add_account("sms", "a")
    add_account("sms", "b")
    remember("sender:Sms:+49170", "here", ran(here, "sender:Sms:+49170"))
    remember("sender:Sms:+49170", "there", ran(there, "sender:Sms:+49170"))
    remember("sender:Sms/a:+49170", "since", ran(here, "sender:Sms/a:+49170"))
    migrate()
    link = SenderLink.objects.create(user=user, account=account, sender_id="+49170", linked_at=timezone.now())
    with transaction.atomic():
        assert linked_memories.move_to_user(link) == 2
    assert dict(Memory.objects.values_list("key", "actor")) == {
        "here": f"user:{user.pk}",
        "since": f"user:{user.pk}",
        "there": "sender:Sms:+49170",
    }

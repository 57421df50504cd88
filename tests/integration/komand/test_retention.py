"""Retention: expired rows are deleted in small batches, all others stay."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as BrowserSession
from django.core.management import call_command
from django.utils import timezone
from redis.exceptions import TimeoutError as NoAnswer

from agents_app.models import Agent, ModelProvider, Run, Step
from agents_app.types import RunStatus
from audit_app import retention
from audit_app.chain import sealer
from audit_app.kernel.circuit_breaker import Breaker
from audit_app.kernel.ids import first_id_at
from audit_app.models import AuditEntry, Event, TimelineHead
from sessions_app import services
from sessions_app.integrity_checks import find_violations
from sessions_app.models import ChannelAccount, Delivery, InboundKey, InboundMessage, RefreshToken, Session
from tests.support.rest import make_run

pytestmark = pytest.mark.django_db


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def rule(name: str) -> retention.Rule:
    return next(rule for rule in retention.list_rules() if rule.name == name)


def timeline(messages: int, *, days_old: float) -> UUID:
    """Create a session's events: repeatedly a question, a run's start and an answer, with close timestamps."""
    session_id, ts = uuid4(), int(ago(days_old).timestamp() * 1000)
    types = ["message.received", "run.started", "message.completed"] * (messages // 2)
    Event.objects.bulk_create(
        Event(session_id=session_id, seq=seq, ts=ts + seq, type=kind, actor="user:1")
        for seq, kind in enumerate(types, start=1)
    )
    TimelineHead.objects.create(session_id=session_id, seq=len(types), ts=ts + len(types))
    return session_id


def test_the_timeline_stays_for_ever_by_default() -> None:
    timeline(1200, days_old=1000)
    assert rule("events of the timeline").prune(500) == 0


def test_old_events_are_deleted_except_the_newest_messages_of_a_session(settings) -> None:
    settings.KOMAND_TIMELINE_DAYS, settings.KOMAND_TIMELINE_MESSAGES = 90, 1000
    long, short, young = timeline(1200, days_old=100), timeline(800, days_old=100), timeline(1200, days_old=80)
    expected = rule("events of the timeline").count()
    call_command("prune")
    left = Event.objects.filter(session_id=long).order_by("seq")
    assert left.filter(type__startswith="message.").count() == 1000
    assert left[0].seq == expected + 1 == 301
    assert Event.objects.filter(session_id=short).count() == 1200
    assert Event.objects.filter(session_id=young).count() == 1800


def test_audit_entries_are_deleted_after_the_days_of_the_setting(settings, tmp_path) -> None:
    settings.DATA_DIR = tmp_path
    for days in (100, 80):
        AuditEntry.objects.create(id=first_id_at(ago(days)), action="A", actor="x", at=ago(days))
    sealer.seal_all()
    call_command("prune")
    assert AuditEntry.objects.count() == 2
    settings.KOMAND_AUDIT_DAYS = 90
    call_command("prune")
    assert AuditEntry.objects.count() == 1


@pytest.fixture
def make_step() -> Callable[..., Step]:
    provider = ModelProvider.objects.create(name="scripted", kind="scripted")
    agent, _ = Agent.objects.get_or_create(agent_id="default", defaults={"name": "A", "provider": provider})

    def make(days: float, **fields: object) -> Step:
        now = ago(days)
        run = Run.objects.create(
            conversation_id=uuid4(),
            ordinal=0,
            agent=agent,
            actor="user:1",
            created_at=now,
            **{"status": "completed", "ended_at": now, "end_stored": True, **fields},
        )
        return Step.objects.create(
            id=first_id_at(now),
            run=run,
            index=0,
            fence=1,
            text="hi",
            finish_reason="stop",
            started_at=now,
            ended_at=now,
        )

    return make


def test_steps_are_deleted_once_their_run_has_ended_and_the_end_is_stored(make_step: Callable[..., Step]) -> None:
    make_step(181)
    kept = [make_step(179), make_step(200, status="waiting", ended_at=None), make_step(201, end_stored=False)]
    call_command("prune")
    assert set(Step.objects.all()) == set(kept)


def test_messages_and_deliveries_of_channels_are_deleted_after_their_times() -> None:
    account = ChannelAccount.objects.create(channel="webhook", account_id="crm")
    for days in (6, 8, 31, 91):
        at = ago(days)
        message = InboundMessage.objects.create(
            id=first_id_at(at),
            account=account,
            message_id=f"m-{days}",
            sender_id="s",
            chat_id="c",
            raw="{}",
            reason="no_text",
            sent_at=at,
            received_at=at,
        )
        InboundKey.objects.create(id=first_id_at(at), account=account, key=f"m-{days}", message=message)
        for status in ("sent", "pending"):
            Delivery.objects.create(
                dedupe_key=f"{status}-{days}",
                account=account,
                ordering_key="l",
                status=status,
                ready_at=at,
                expires_at=at,
                created_at=at,
            )
    call_command("prune")
    assert set(InboundMessage.objects.values_list("message_id", "raw")) == {
        ("m-6", "{}"),
        ("m-8", None),
        ("m-31", None),
    }
    assert set(InboundKey.objects.values_list("key", flat=True)) == {"m-6", "m-8"}
    assert set(Delivery.objects.filter(created_at__lt=ago(90)).values_list("status", flat=True)) == {"pending"}


def test_expired_logins_are_deleted(django_user_model) -> None:
    user = django_user_model.objects.create_user("alice")
    for days in (1, 8):
        RefreshToken.objects.create(family=uuid4(), user=user, digest=f"d{days}", expires_at=ago(days))
        BrowserSession.objects.create(session_key=f"s{days}", session_data="", expire_date=ago(days - 2))
    call_command("prune")
    assert [token.digest for token in RefreshToken.objects.all()] == ["d1"]
    assert [session.session_key for session in BrowserSession.objects.all()] == ["s1"]


def test_a_dry_run_only_counts(make_step: Callable[..., Step], capsys: pytest.CaptureFixture[str]) -> None:
    make_step(181)
    call_command("prune", "--dry-run")
    assert Step.objects.count() == 1
    assert "1  steps of ended runs  (kept: KOMAND_STEP_DAYS)" in capsys.readouterr().out


class Counted(retention.Rule):
    name, kept_for = "counted", "a while"

    def __init__(self, left: int) -> None:
        self.left = left

    def prune(self, limit: int) -> int:
        gone = min(self.left, limit)
        self.left -= gone
        return gone

    def count(self) -> int:
        return self.left


def test_the_chores_take_one_batch_a_second_and_rest_between_rounds(valkey: object) -> None:
    now, work = [0.0], Counted(retention.BATCH + 7)
    pruner = retention.Pruner(lambda: [work], lambda: now[0])
    pruner.step()
    assert work.left == 7
    pruner.step()
    work.left = 1
    pruner.step()
    assert work.left == 1
    now[0] += 601
    pruner.step()
    assert work.left == 0


@pytest.mark.parametrize("days", [36_500, 10**9])
def test_a_hundred_years_are_kept_like_for_ever(settings: Any, days: int) -> None:
    settings.KOMAND_AUDIT_DAYS = settings.KOMAND_STEP_DAYS = settings.KOMAND_TIMELINE_DAYS = days
    settings.KOMAND_ATTACHMENT_DAYS = days
    timeline(1_200, days_old=1)
    assert [rule.prune(10) for rule in retention.list_rules()] == [0] * len(retention.list_rules())
    assert find_violations() is not None


def test_conversations_that_are_not_stored_are_hidden_after_an_hour(alice: User, default_agent: Agent) -> None:
    kept = services.open_session(owner=alice)
    old, busy = (services.open_session(owner=alice, is_temporary=True) for _ in range(2))
    Session.objects.update(last_active_at=ago(1))
    make_run(busy, RunStatus.QUEUED)
    young = services.open_session(owner=alice, is_temporary=True)
    temporary = rule("conversations of responses that are not stored")
    assert temporary.count() == temporary.prune(500) == 1 and temporary.prune(500) == 0
    hidden = Session.objects.exclude(deleted_at=None).get()
    assert hidden.pk == old.pk and hidden.key.startswith("WebChat:default:") and ":deleted-" in hidden.key
    assert set(Session.objects.filter(deleted_at=None)) == {kept, busy, young}


def test_a_rule_that_fails_does_not_block_the_others(valkey: object) -> None:
    class Broken(Counted):
        def prune(self, limit: int) -> int:
            raise ValueError("an unforeseen row")

    work = Counted(1)
    pruner = retention.Pruner(lambda: [work, Broken(1)])
    with pytest.raises(ValueError, match="unforeseen row"):
        pruner.step()
    pruner.step()
    assert work.left == 0


def test_a_valkey_that_hangs_is_not_tried_for_each_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chores of every second would wait, and with them the detection of dead workers."""
    asked = []

    class Hanging:
        def set(self, *_: object, **__: object) -> None:
            asked.append(1)
            raise NoAnswer("hangs")

    monkeypatch.setattr("audit_app.kernel.single_holder.valkey.breaker", Breaker(slow_seconds=0))
    monkeypatch.setattr("audit_app.kernel.single_holder.valkey.sync_client", Hanging)
    pruner = retention.Pruner(lambda: [Counted(1)] * 3)
    for _ in range(3):
        pruner.step()
    assert len(asked) == 1


def test_one_process_at_a_time_works_on_a_rule(valkey: object) -> None:
    work = Counted(10 * retention.BATCH)
    first, second = (retention.Pruner(lambda: [work]) for _ in range(2))
    first.step()
    second.step()
    first.step()
    assert work.left == 8 * retention.BATCH

"""Nudges that are sent later than the commit."""

import pytest

from audit_app.kernel import nudges
from audit_app.kernel.context import request_id
from tests.support.engine import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def test_a_delayed_nudge_is_sent_by_this_process_without_a_countdown(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, ...]] = []

    def send(name: str, args: tuple[str, ...], **options: object) -> None:
        sent.append((name, args, options, request_id.get()))

    monkeypatch.setattr(nudges, "send", send)
    token = request_id.set("r-1")
    nudges.nudge("agents.advance_run", "42", queue="runs", delay_seconds=0.05)
    request_id.reset(token)
    assert sent == []
    until(lambda: sent)
    assert sent == [("agents.advance_run", ("42",), {"queue": "runs", "task_id": None}, "r-1")]

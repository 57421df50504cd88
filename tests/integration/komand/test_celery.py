import json
from base64 import b64decode
from collections.abc import Iterator
from types import SimpleNamespace
from uuid import uuid4

import pytest
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

from audit_app.kernel import context, nudges
from audit_app.kernel.circuit_breaker import Breaker
from komand import celery


@pytest.fixture(autouse=True)
def _own_context() -> Iterator[None]:
    token = context.request_id.set("left over")
    yield
    context.request_id.reset(token)


@pytest.mark.parametrize(("headers", "expected"), [({"request_id": "r-7"}, "r-7"), ({}, ""), (None, "")])
def test_a_task_runs_under_the_request_that_caused_it(headers: dict[str, str] | None, expected: str) -> None:
    celery._bind_request(task=SimpleNamespace(request=SimpleNamespace(headers=headers)))
    assert context.request_id.get() == expected


def test_tasks_of_both_queues_are_known() -> None:
    assert {"agents.advance_run", "tools.execute"} <= set(celery.app.tasks)


def test_messages_are_json_and_results_are_not_kept() -> None:
    assert celery.app.conf.accept_content == ["json"] and celery.app.conf.task_ignore_result
    assert celery.app.conf.broker_transport_options["global_keyprefix"] == settings.KOMAND_REDIS_PREFIX


def test_nudges_that_no_worker_has_taken_are_known(valkey):
    assert not nudges.has_waiting("runs")
    nudges.send("agents.advance_run", (str(uuid4()),), queue="runs")
    assert nudges.has_waiting("runs")


def test_killing_tasks_does_not_wait_for_a_broker_that_hangs(monkeypatch):
    """The first try lasts as long as a nudge may take and is logged; later ones are skipped for a while."""
    patience = []

    def hang(task_ids, connection, **options):
        patience.append(connection.transport_options["socket_timeout"])
        raise OperationalError("no answer")

    monkeypatch.setattr(nudges, "_breaker", Breaker(slow_seconds=0))
    monkeypatch.setattr(current_app.control, "revoke", hang)
    nudges.revoke(["a"])
    nudges.revoke(["b"])
    assert patience == [2]


def test_a_nudge_has_the_form_of_a_message_of_celery(valkey):
    """Workers of other releases take it, too: they take what Celery sends."""
    key, run_id = f"{settings.KOMAND_REDIS_PREFIX}runs", str(uuid4())
    with context.bind(request_id="r-7"):
        nudges.send("agents.advance_run", (run_id,), queue="runs")
        nudges._send_task("agents.advance_run", (run_id,), queue="runs", task_id=None)
    by_celery, pushed = (json.loads(message) for message in valkey.lrange(key, 0, -1))
    assert json.loads(b64decode(pushed["body"])) == json.loads(b64decode(by_celery["body"]))
    unlike = {"id", "root_id", "origin"}
    assert pushed["headers"].keys() == by_celery["headers"].keys()
    assert {name for name, value in pushed["headers"].items() if value != by_celery["headers"][name]} == unlike
    optional = {"reply_to", "argsrepr", "kwargsrepr"}  # of events, and where results are sent
    assert by_celery["properties"].keys() - optional == pushed["properties"].keys()


def test_a_worker_takes_a_nudge(valkey):
    run_id, taken = str(uuid4()), []
    nudges.send("agents.advance_run", (run_id,), queue="runs")

    def take(body, message):
        taken.append((message.headers["task"], body[0]))

    with celery.app.connection_for_read() as connection:
        queue = celery.app.amqp.queues["runs"]
        with celery.app.amqp.TaskConsumer(connection.default_channel, queues=[queue], callbacks=[take]):
            connection.drain_events(timeout=60)
    assert taken == [("agents.advance_run", [run_id])]

"""The tour over HTTP: who may do what, and what its panel shows. `tests/browser/test_tour.py` walks all steps."""

import os
import signal
import socket
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Agent, ModelProvider, Run
from agents_app.runs import lease
from audit_app.kernel import liveness
from audit_app.kernel.liveness import ProcessView
from audit_app.models import AuditEntry
from komand.seed import seed
from sessions_app.models import Session
from sessions_app.surfaces.tour.steps import PROMPTS, SLOW_ANSWER
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
SLOW = "/demo long"


@pytest.fixture(autouse=True)
def seeded() -> None:
    seed()


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def admin() -> User:
    return User.objects.get(username="admin")


def start(user: User) -> tuple[Client, Session]:
    client = browser_of(user)
    assert client.post("/tour/start").status_code == 302
    return client, Session.objects.get(owner=user, metadata__tour=True, deleted_at=None)


def running(user: User, monkeypatch: pytest.MonkeyPatch) -> tuple[Client, Run, list[Any]]:
    """Return a running long answer of the user's tour, with the signals that are sent to its process."""
    client, session = start(user)
    assert client.post("/tour/send", {"text": SLOW}).status_code == 200
    owner = uuid4()
    run = Run.objects.get(conversation_id=session.pk)
    assert lease.claim(owner, run.pk)
    worker = ProcessView(owner, "runs-1", 4242, socket.gethostname(), alive=True)
    monkeypatch.setattr(liveness, "list_processes", lambda: [worker])
    sent: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    run.refresh_from_db()
    return client, run, sent


def test_the_card_is_on_the_start_page_of_the_demo_alone() -> None:
    client = browser_of(admin())
    assert b"Start the tour" in client.get("/chat/new").content
    Agent.objects.filter(agent_id="team").update(provider=ModelProvider.objects.create(name="real", kind="openai"))
    page = client.get("/chat/new").content
    assert b"Start the tour" not in page and b"tour.css" not in page


def test_each_user_has_a_tour_of_their_own_and_other_chats_load_nothing_of_it() -> None:
    client, session = start(admin())
    assert client.get("/tour").headers["Location"] == f"/chat/{session.pk}"
    assert client.post("/tour/start").headers["Location"] == f"/chat/{session.pk}"
    page = client.get(f"/chat/{session.pk}").content
    assert b"/tour/panel" in page and b"tour.css" in page
    session.metadata = {}
    session.save()
    page = client.get(f"/chat/{session.pk}").content
    assert b"/tour" not in page and b"tour.css" not in page
    other = browser_of(make_user("sam"))
    assert b"Start the tour" in other.get("/tour").content
    assert other.get("/tour/panel").headers["Location"] == "/tour"
    assert other.post("/tour/remove").headers["Location"] == "/tour"
    assert client.post("/tour/remove").headers["Location"] == "/"
    assert client.get(f"/chat/{session.pk}").status_code == 404


def test_only_prepared_messages_are_sent_one_at_a_time() -> None:
    client, _ = start(admin())
    assert client.post("/tour/send", {"text": "anything"}).status_code == 400
    text = next(iter(PROMPTS))
    assert client.post("/tour/send", {"text": text}).status_code == 200
    assert client.post("/tour/send", {"text": text}).status_code == 409
    assert Run.objects.count() == 1


def test_the_panel_is_sent_again_only_if_it_has_changed() -> None:
    client, _ = start(admin())
    panel = client.get("/tour/panel", {"step": "tools"}).content.decode()
    state = panel.partition('"state": "')[2].partition('"')[0]
    assert client.get("/tour/panel", {"step": "tools", "state": state}).status_code == 204
    client.post("/tour/send", {"text": next(iter(PROMPTS))})
    assert client.get("/tour/panel", {"step": "tools", "state": state}).status_code == 200


def test_a_superuser_kills_the_worker_once_and_the_panel_shows_the_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    client, run, sent = running(admin(), monkeypatch)
    assert "Kill worker 4242 now" in client.get("/tour/panel", {"step": "crash"}).content.decode()
    assert "Waiting for another" in client.post("/tour/kill").content.decode()
    assert sent == [(4242, signal.SIGKILL)]
    entry = AuditEntry.objects.get(action="WorkerKilled")
    assert (entry.actor, entry.details["run_id"], entry.details["pid"]) == (f"user:{admin().pk}", str(run.pk), 4242)
    lease.recover_crashed(run)
    assert lease.claim(uuid4(), run.pk)
    assert "Another took over after" in client.get("/tour/panel", {"step": "crash"}).content.decode()
    assert client.post("/tour/kill").status_code == 409
    assert len(sent) == 1
    assert recovered_runs() == [run.pk]


def recovered_runs() -> list[UUID]:
    return [UUID(entry.details["run_id"]) for entry in AuditEntry.objects.filter(action="RunRecovered")]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (SLOW_ANSWER, f"{len(SLOW_ANSWER)} letters stored: 0 letters lost, 0 twice."),
        (SLOW_ANSWER[::-1], f"Their text differs from the {len(SLOW_ANSWER)} letters of an answer without a crash."),
        (SLOW_ANSWER[1:], f"{len(SLOW_ANSWER) - 1} letters stored. Their text differs"),
    ],
    ids=["whole", "in another order", "cut"],
)
def test_the_stored_answer_is_compared_letter_by_letter(
    answer: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, run, _ = running(admin(), monkeypatch)
    client.post("/tour/kill")
    lease.recover_crashed(run)
    Run.objects.filter(pk=run.pk).update(status="completed", answer=answer)
    assert shown in client.get("/tour/panel", {"step": "crash"}).content.decode()


def test_nobody_else_kills_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _, sent = running(make_user("sam", is_staff=True), monkeypatch)
    assert client.post("/tour/kill").status_code == 403
    assert "Kill worker" not in client.get("/tour/panel", {"step": "crash"}).content.decode()
    assert sent == [] and not AuditEntry.objects.filter(action="WorkerKilled").exists()


def test_beside_a_real_model_a_setting_allows_it(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    client, _, sent = running(admin(), monkeypatch)
    ModelProvider.objects.create(name="real", kind="openai")
    assert client.post("/tour/kill").status_code == 403 and sent == []
    settings.KOMAND_TOUR = True
    assert client.post("/tour/kill").status_code == 200 and len(sent) == 1

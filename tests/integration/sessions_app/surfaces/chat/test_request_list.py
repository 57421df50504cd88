"""The page with what waits for a user, and the marks in the list of chats."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Run
from agents_app.types import RunStatus
from tests.support.rest import make_execution, make_run, make_session, make_user
from tools_app.models import Approval, InputRequest

pytestmark = pytest.mark.django_db


def browse(user: User, **headers: str) -> Client:
    browser = Client(headers=headers)
    browser.force_login(user)
    return browser


def ask_approval(run: Run, **fields: Any) -> Approval:
    call = make_execution(run, status="Pending", decision="ask", arguments={"text": "to the moon"}, **fields)
    times = {"created_at": timezone.now(), "expires_at": timezone.now() + timedelta(minutes=9)}
    return Approval.objects.create(execution=call, run_id=run.pk, reason="It is risky.", **times)


def ask_question(run: Run) -> InputRequest:
    question = {"question": "Which currency?", "options": ["EUR"]}
    call = make_execution(run, tool="ask_user", status="Running", arguments=question)
    times = {"created_at": timezone.now(), "expires_at": timezone.now() + timedelta(days=1)}
    return InputRequest.objects.create(
        execution=call, run_id=run.pk, session_id=run.conversation_id, **question, **times
    )


def test_a_user_sees_what_waits_in_all_of_their_chats_and_nobody_elses(settings: Any) -> None:
    settings.KOMAND_APPROVERS = "owners"
    alice, bob = make_user("alice"), make_user("bob")
    chats = [make_session(alice, key=f"WebChat:default:{n}") for n in range(3)]
    asked = make_run(chats[0], RunStatus.WAITING, waiting_on="input")
    ask_question(asked)
    above = make_run(chats[1], RunStatus.WAITING, waiting_on="children")
    spec = {"name": "Deep one", "above": ["Prices"]}
    child = make_run(chats[1], RunStatus.WAITING, waiting_on="approval", parent=above, root=above, spec=spec)
    approval = ask_approval(child)
    make_run(chats[2], RunStatus.WAITING, waiting_on="children")
    shown = browse(alice).get("/chat/waiting").content.decode()
    assert "Which currency?" in shown and "to the moon" in shown and "Workstream Prices › Deep one" in shown
    assert "2 chats wait for you" in shown
    listed = browse(alice, **{"HX-Request": "true"}).get("/chat/sessions").content.decode()
    assert (listed.count("dot asks"), listed.count("Running:")) == (2, 1)
    assert "Nothing waits for you." in browse(bob).get("/chat/waiting").content.decode()
    settings.KOMAND_APPROVERS = "operators"
    listed = browse(alice, **{"HX-Request": "true"}).get("/chat/sessions").content.decode()
    assert listed.count("dot asks") == 1, "a decision that the user may not make does not wait for the user"
    assert "to the moon" not in browse(alice).get("/chat/waiting").content.decode()
    Approval.objects.filter(pk=approval.pk).update(credential_owner=f"user:{bob.pk}")
    settings.KOMAND_APPROVERS = "owners"
    foreign = browse(bob).get("/chat/waiting").content.decode()
    assert str(chats[1].pk) not in foreign


def test_the_number_of_queries_does_not_grow(django_assert_max_num_queries: Any) -> None:
    alice = make_user("alice", is_superuser=True)
    chats = [make_session(alice, key=f"WebChat:default:{n}") for n in range(12)]
    for number, chat in enumerate(chats):
        on, ask = ("approval", ask_approval) if number % 2 else ("input", ask_question)
        ask(make_run(chat, RunStatus.WAITING, waiting_on=on))
    browser = browse(alice, **{"HX-Request": "true"})
    with django_assert_max_num_queries(14):
        assert browser.get("/chat/waiting").content.decode().count("<article") == 12

"""Two people for a call of high risk: who they may be, what everybody sees in between, and races."""

import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from agents_app import services as runs
from agents_app.models import Agent
from audit_app.kernel.errors import AppError
from audit_app.models import AuditEntry
from sessions_app.approvals import decisions
from tests.security.test_people_fresh_login import approval_of
from tests.support.approvals import Launch, asked, wants_to_launch
from tests.support.engine import EngineRig
from tests.support.rest import RestCaller, make_agent, make_user
from tools_app.models import Approval, Grant
from tools_app.policy.decide import Allow, Ask, Situation, decide
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy
from tools_app.services import SecondPersonNeeded
from tools_app.types import Risk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

TWO = AgentPolicy(needs_two=True)


@pytest.fixture
def operators() -> tuple[User, User]:
    return tuple(make_user(name, is_superuser=True, is_staff=True) for name in ("ada", "grace"))  # type: ignore[return-value]


@pytest.fixture
def approval() -> Approval:
    """Return a pending request of alice that two people must allow."""
    found = approval_of(make_user("alice", is_superuser=True))
    Approval.objects.update(needs_two=True)
    found.refresh_from_db()
    return found


def allow(approval: Approval, user: User, decision: str = "allow_once") -> str:
    decided = decisions.decide(approval.pk, decision=decision, actor=f"user:{user.pk}", has_fresh_login=True)
    return decided.status.value


@pytest.mark.parametrize(
    ("policy", "situation"),
    [
        (AgentPolicy(needs_two=True, autonomy="full"), Situation()),
        (AgentPolicy(needs_two=True, auto_approve=("launch",)), Situation()),
        (TWO, Situation(grants=("launch",))),
        (TWO, Situation(run_grants=("launch",))),
        (AgentPolicy(autonomy="full", within=TWO), Situation()),
        (AgentPolicy(needs_two=True, within=AgentPolicy()), Situation()),
    ],
)
def test_nothing_allows_a_call_of_high_risk_in_advance(policy: AgentPolicy, situation: Situation) -> None:
    call = PolicyCall(Launch.spec, {"target": "moon"})
    verdict = decide(call, Risk.HIGH, policy, "user:1", situation=situation)
    assert isinstance(verdict, Ask) and verdict.needs_two and not verdict.is_standing
    assert verdict.reason.startswith("Two people must allow")


def test_other_calls_are_as_before() -> None:
    call = PolicyCall(Launch.spec, {"target": "moon"})
    assert isinstance(decide(call, Risk.MEDIUM, AgentPolicy(needs_two=True, autonomy="full"), "user:1"), Allow)


def test_the_second_of_two_different_people_releases_the_call(
    launch: object, rig: EngineRig, operators: tuple[User, User]
) -> None:
    ada, grace = operators
    wants_to_launch(rig)
    Agent.objects.update(needs_two_approvers=True, autonomy="full", auto_approve=["launch"])
    accepted = rig.send()
    approval = asked()
    assert approval.needs_two and approval.choices == ("allow_once", "deny")
    assert allow(approval, ada) == "pending" and Launch.launched == []
    assert allow(approval, grace) == "approved"
    rig.wait(accepted.run_id)
    assert Launch.launched == ["moon"]
    entry = AuditEntry.objects.get(action="ApprovalFirstAllowed")
    assert entry.actor == f"user:{ada.pk}" and entry.details["approval_id"] == str(approval.pk)
    assert decisions.outcome_of(approval.pk) == "Allowed once by ada and grace"


def test_one_person_counts_once(approval: Approval, operators: tuple[User, User]) -> None:
    ada, _ = operators
    assert allow(approval, ada) == "pending"
    with pytest.raises(SecondPersonNeeded, match="1 of 2"):
        allow(approval, ada)
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_the_owner_of_the_session_is_none_of_the_two(approval: Approval, operators: tuple[User, User]) -> None:
    alice = User.objects.get(username="alice")
    with pytest.raises(SecondPersonNeeded, match="two other people"):
        allow(approval, alice)
    with pytest.raises(SecondPersonNeeded):  # the admin decides without `decisions`
        runs.decide_approval(approval.pk, decision="allow_once", actor=f"user:{alice.pk}")
    assert allow(approval, operators[0]) == "pending"
    with pytest.raises(SecondPersonNeeded):
        allow(approval, alice)


@pytest.mark.parametrize("who", ["alice", "ada", "grace"])
def test_a_denial_by_one_denies(approval: Approval, operators: tuple[User, User], who: str) -> None:
    allow(approval, operators[0])
    assert allow(approval, User.objects.get(username=who), "deny") == "denied"


@pytest.mark.parametrize("decision", ["allow_run", "allow_always"])
def test_wider_decisions_are_neither_offered_nor_accepted(
    approval: Approval, operators: tuple[User, User], decision: str
) -> None:
    for operator in operators:
        with pytest.raises(AppError):
            allow(approval, operator, decision)
    approval.refresh_from_db()
    assert approval.status == "pending" and not Grant.objects.exists()


def test_at_the_same_time_two_people_are_two_and_one_is_one(approval: Approval, operators: tuple[User, User]) -> None:
    ada, grace = operators
    results = at_once([lambda: allow(approval, ada)] * 4)
    assert results.count("pending") == 1 and results.count("second_person_needed") == 3
    results = at_once([lambda: allow(approval, grace)] * 4)
    assert results.count("approved") == 1 and results.count("already_decided") == 3


def at_once(actions: list[Callable[[], str]]) -> list[str]:
    """Run the actions in threads, and return their results or error codes."""
    start, results = threading.Barrier(len(actions)), []

    def act(action: Callable[[], str]) -> None:
        try:
            start.wait(60)
            results.append(action())
        except AppError as error:
            results.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def test_rest_shows_the_first_of_two(approval: Approval, operators: tuple[User, User]) -> None:
    ada, grace = operators
    answer = RestCaller(ada).post(f"approvals/{approval.pk}/decide", {"decision": "allow_once"})
    assert answer.status == 200 and answer.data["status"] == "pending" and answer.data["needsTwo"] is True
    assert answer.data["firstAllowedBy"] == f"user:{ada.pk}"
    again = RestCaller(ada).post(f"approvals/{approval.pk}/decide", {"decision": "allow_once"})
    assert (again.status, again.meta["code"]) == (403, "second_person_needed")
    assert RestCaller(grace).post(f"approvals/{approval.pk}/decide", {"decision": "allow_once"}).data["decision"]


def test_the_page_and_the_admin_show_one_of_two(approval: Approval, operators: tuple[User, User]) -> None:
    ada, grace = operators
    browser = Client()
    browser.force_login(ada)
    path = f"/chat/approvals/{approval.pk}/decide"
    card = browser.post(path, {"decision": "allow_once"}, headers={"HX-Request": "true"}).content.decode()
    assert "Allowed by 1 of 2 people" in card and 'value="deny"' in card and 'value="allow_once"' not in card
    pages = Client()
    pages.force_login(grace)
    assert f"1 of 2: user:{ada.pk}" in pages.get("/admin/tools_app/approval/").content.decode()


def test_to_drop_the_second_person_takes_the_right_to_grant_autonomy(operators: tuple[User, User]) -> None:
    owner = make_user("owner")
    make_agent("mine", owner_id=owner.pk, needs_two_approvers=True)
    refused = RestCaller(owner).put("agents/mine", {"needsTwoApprovers": False})
    assert (refused.status, refused.meta["right"]) == (403, "agents_app.grant_autonomy")
    assert RestCaller(owner).put("agents/mine", {"needsTwoApprovers": True}).status == 200
    assert RestCaller(operators[0]).put("agents/mine", {"needsTwoApprovers": False}).status == 200

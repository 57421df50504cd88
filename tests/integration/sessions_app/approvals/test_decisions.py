"""Permissions to see and decide requests for approval on the page and over REST, and the responses."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.models import Step
from agents_app.types import RunStatus
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session
from sessions_app.services import delete_session
from tests.support.rest import RestCaller, make_execution, make_run, make_session, make_user
from tests.support.rights import make_operator
from tools_app.executions.approvals import digest_of
from tools_app.models import Approval, Grant
from tools_app.rights import ALLOW_ALWAYS
from tools_app.types import Decision

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

HTMX = {"HX-Request": "true"}


def request_of(owner: User) -> Approval:
    """Return a pending request in a session of the owner."""
    run = make_run(make_session(owner), RunStatus.WAITING, waiting_on="approval")
    Step.objects.create(run=run, index=0, fence=1, text="", started_at=timezone.now(), ended_at=timezone.now())
    row = make_execution(
        run, status="Pending", tool="launch", arguments={"target": "moon", "token": "hunter2"}, risk="high"
    )
    return Approval.objects.create(
        execution=row,
        run_id=run.pk,
        digest=digest_of(row),
        reason="The call is of high risk.",
        run_pattern="launch",
        pattern="launch(target=moon)",
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(minutes=15),
    )


@pytest.fixture
def ada() -> User:
    return make_operator("ada", first_name="Ada")


def browse(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def decide(user: User, approval: Approval, decision: str = "allow_once", **fields: str):
    return browse(user).post(f"/chat/approvals/{approval.pk}/decide", {"decision": decision, **fields}, headers=HTMX)


def test_an_operator_decides_in_an_own_session_on_the_page(ada: User) -> None:
    approval = request_of(ada)
    answer = decide(ada, approval, "allow_run")
    assert answer.status_code == 200 and "Allowed for this run by Ada" in answer.content.decode()
    approval.refresh_from_db()
    assert (approval.decision, approval.decided_by) == ("allow_run", f"user:{ada.pk}")


def test_a_second_decision_is_refused_with_the_name_of_the_first_actor(ada: User) -> None:
    approval = request_of(ada)
    decide(ada, approval, "deny", note="not now")
    second = decide(ada, approval)
    assert second.status_code == 409 and "Denied by Ada" in second.content.decode()


def test_an_expired_request_is_gone(ada: User) -> None:
    approval = request_of(ada)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = decide(ada, approval)
    assert answer.status_code == 410 and "expired" in answer.content.decode()


@pytest.mark.parametrize(("decision", "note"), [("perhaps", ""), ("", ""), ("deny", "x" * 1001)])
def test_invalid_decisions_are_refused(ada: User, decision: str, note: str) -> None:
    approval = request_of(ada)
    assert decide(ada, approval, decision, note=note).status_code == 400
    approval.refresh_from_db()
    assert approval.status == "pending"


def test_an_owner_without_staff_rights_sees_the_request_but_cannot_decide(alice: User) -> None:
    approval = request_of(alice)
    assert decide(alice, approval).status_code == 403
    shown = RestCaller(alice).get(f"approvals/{approval.pk}").data
    assert (shown["status"], shown["mayDecide"], shown["parameters"]["token"]) == (
        "pending",
        False,
        "••• (7 characters)",
    )
    assert RestCaller(alice).post(f"approvals/{approval.pk}/decide", {"decision": "deny"}).status == 403


def test_owners_decide_if_the_settings_allow_it(alice: User, settings) -> None:
    settings.KOMAND_APPROVERS = "owners"
    approval = request_of(alice)
    assert decide(make_user("bob"), approval).status_code == 404
    assert decide(alice, approval).status_code == 200


def test_other_users_see_no_request(alice: User) -> None:
    approval = request_of(alice)
    stranger = RestCaller(make_user("bob"))
    assert stranger.get("approvals").data == []
    for path in (f"approvals/{approval.pk}", f"approvals/{uuid4()}", "approvals/nothing"):
        assert stranger.get(path).status == stranger.post(f"{path}/decide", {"decision": "deny"}).status == 404
    assert decide(make_user("eve"), approval).status_code == 404


def test_a_request_of_a_deleted_session_is_gone_for_its_owner(alice: User) -> None:
    approval = request_of(alice)
    delete_session(Session.objects.select_related("agent").get(owner=alice))
    assert RestCaller(alice).get(f"approvals/{approval.pk}").status == 404


def test_operators_see_all_requests_and_users_their_own(ada: User, alice: User) -> None:
    own, other = request_of(ada), request_of(alice)
    assert [row["approvalId"] for row in RestCaller(ada).get("approvals?status=pending").data] == [
        str(other.pk),
        str(own.pk),
    ]
    [row] = RestCaller(alice).get("approvals?status=pending").data
    assert (row["approvalId"], row["sessionId"]) == (str(other.pk), f"WebChat:default:{alice.pk}")
    assert row["patterns"] == {"allow_run": "launch", "allow_always": "launch(target=moon)"}
    assert len(RestCaller(ada).get("approvals?pageSize=1&page=2").data) == 1


def test_a_read_only_key_cannot_decide(ada: User) -> None:
    approval = request_of(ada)
    reader = RestCaller(bearer=create_api_key(ada, "reader", scopes=["read"]).key)
    shown = reader.get(f"approvals/{approval.pk}").data
    assert (shown["mayDecide"], shown["choices"]) == (False, [])
    assert reader.post(f"approvals/{approval.pk}/decide", {"decision": "deny"}).status == 403


def test_a_page_opened_while_a_request_is_pending_shows_it(ada: User) -> None:
    approval = request_of(ada)
    page = browse(ada).get(f"/chat/{approval.execution.session_id}").content.decode()
    assert f"/chat/approvals/{approval.pk}/decide" in page and "Waiting for your decision" in page
    assert "hunter2" not in page and "data-pending" in page


def test_an_owner_cannot_always_allow_a_call(alice: User, settings) -> None:
    settings.KOMAND_APPROVERS = "owners"
    approval = request_of(alice)
    offered = RestCaller(alice).get(f"approvals/{approval.pk}").data["choices"]
    assert offered == ["allow_once", "allow_run", "deny"]
    page = browse(alice).get(f"/chat/{approval.execution.session_id}").content.decode()
    assert [each.value for each in Decision if f'value="{each}"' in page] == offered
    refused = decide(alice, approval, "allow_always")
    assert refused.status_code == 403 and ALLOW_ALWAYS.permission in refused.content.decode()
    assert not Grant.objects.exists()
    assert decide(alice, approval, "allow_run").status_code == 200


def test_an_operator_can_always_allow_a_call(ada: User) -> None:
    approval = request_of(ada)
    assert "allow_always" in RestCaller(ada).get(f"approvals/{approval.pk}").data["choices"]
    assert decide(ada, approval, "allow_always").status_code == 200
    assert RestCaller(ada).get(f"approvals/{approval.pk}").data["choices"] == []
    assert Grant.objects.get().run_id is None

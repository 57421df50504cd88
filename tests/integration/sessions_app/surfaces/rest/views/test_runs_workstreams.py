"""Workstreams of a run over REST and on its page: their tree, the queries that it takes, and the end of one of them."""

from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents_app.models import Run
from agents_app.services import NewChild, start_child
from agents_app.types import RunStatus
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.ids import new_id
from sessions_app.models import Session
from tests.support.rest import RestCaller, make_execution, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def launch(parent_id: UUID, workstream: str) -> Run:
    return start_child(NewChild(new_id(), parent_id, workstream, ChildSpec(name=f"The {workstream}")))


def test_the_workstreams_of_a_run_are_a_tree_of_which_a_branch_is_cancelled():
    alice = make_user("alice")
    api, session = RestCaller(alice), make_session(alice)
    root = make_run(session, RunStatus.WAITING, waiting_on="children")
    prices, news = launch(root.pk, "prices"), launch(root.pk, "news")
    inner = launch(prices.pk, "inner")
    listed = api.get(f"runs/{root.pk}/workstreams")
    assert listed.meta["total"] == 3
    assert [each["id"] for each in listed.data] == [str(run.pk) for run in (prices, news, inner)]
    assert [each["parentRunId"] for each in listed.data] == [str(root.pk), str(root.pk), str(prices.pk)]
    first = listed.data[0]
    assert (first["name"], first["state"], first["phase"], first["kind"]) == (
        "The prices",
        "running",
        "planning",
        "workstream",
    )
    assert first["deadlineAt"] > first["createdAt"] and first["result"] is first["error"] is None
    assert [each["id"] for each in api.get(f"runs/{prices.pk}/workstreams").data] == [str(inner.pk)]
    assert api.post(f"runs/{prices.pk}/cancel").data == {"cancelled": 1}
    assert api.post(f"sessions/{session.pk}/cancel", {"runId": str(prices.pk)}).data == {"cancelled": 0}
    states = {each["workstream"]: each["state"] for each in api.get(f"runs/{root.pk}/workstreams").data}
    assert states == {"prices": "canceled", "inner": "canceled", "news": "running"}
    assert Run.objects.get(pk=root.pk).status == RunStatus.WAITING
    read = api.get(f"runs/{prices.pk}").data
    assert (read["parentRunId"], read["workstream"], read["status"]) == (str(root.pk), "prices", "cancelled")


def test_each_workstream_has_its_own_tokens_and_those_with_its_own_workstreams():
    alice = make_user("alice")
    api, root = RestCaller(alice), make_run(make_session(alice), RunStatus.WAITING, waiting_on="children")
    prices, news = launch(root.pk, "prices"), launch(root.pk, "news")
    inner = launch(prices.pk, "inner")
    for run, tokens in ((root, 1), (prices, 10), (news, 200), (inner, 3000)):
        Run.objects.filter(pk=run.pk).update(input_tokens=tokens, output_tokens=tokens, cost_nanos=tokens * 10**9)
    Run.objects.filter(pk=inner.pk).update(priced_calls=1)
    listed = {each["workstream"]: each for each in api.get(f"runs/{root.pk}/workstreams").data}
    own = [listed[name]["usage"]["inputTokens"] for name in ("prices", "news", "inner")]
    team = [listed[name]["usageWithWorkstreams"] for name in ("prices", "news", "inner")]
    assert own == [10, 200, 3000] and [each["outputTokens"] for each in team] == [3010, 200, 3000]
    assert [each["cost"] for each in team] == [3000, None, 3000]
    assert api.get(f"runs/{root.pk}").data["usage"]["withWorkstreams"]["inputTokens"] == 3211


def test_the_workstreams_of_a_session_are_listed_in_pages_over_all_of_its_runs():
    alice = make_user("alice")
    session = make_session(alice)
    api, path = RestCaller(alice), f"sessions/{session.pk}/workstreams"
    assert (api.get(path).data, api.get(path).meta["total"]) == ([], 0)
    first, second = make_run(session, RunStatus.WAITING, waiting_on="children"), make_run(session, RunStatus.QUEUED)
    prices, news = launch(first.pk, "prices"), launch(second.pk, "news")
    inner = launch(prices.pk, "inner")
    Run.objects.filter(pk=inner.pk).update(input_tokens=30)
    listed = api.get(path)
    assert [(each["number"], each["path"]) for each in listed.data] == [
        (1, ["The prices"]),
        (2, ["The news"]),
        (3, ["The prices", "The inner"]),
    ]
    assert [each["parentRunId"] for each in listed.data] == [str(first.pk), str(second.pk), str(prices.pk)]
    assert listed.data[0]["usageWithWorkstreams"]["inputTokens"] == 30
    assert listed.data[:1] == api.get(f"runs/{first.pk}/workstreams").data[:1]
    page = api.get(f"{path}?page=2&pageSize=1")
    assert (page.data, page.meta["total"]) == ([listed.data[1]], 3)
    api.post(f"runs/{news.pk}/cancel")
    assert [each["number"] for each in api.get(f"{path}?open=true").data] == [1, 3]
    with CaptureQueriesContext(connection) as few:
        api.get(f"{path}?pageSize=1")
    with CaptureQueriesContext(connection) as many:
        api.get(path)
    assert len(many) == len(few)


def test_people_write_to_workstreams_and_steer_them():
    alice, bob = make_user("alice"), make_user("bob")
    api, root = RestCaller(alice), make_run(make_session(alice), RunStatus.WAITING, waiting_on="children")
    prices, news = launch(root.pk, "prices"), launch(root.pk, "news")
    foreign = launch(make_run(make_session(bob, key="WebChat:default:b"), RunStatus.WAITING).pk, "bobs")
    key = {"Idempotency_Key": "k1"}
    for _ in range(2):
        assert api.post(f"runs/{prices.pk}/messages", {"text": "Look in May."}, **key).data == {"runId": str(prices.pk)}
    other = api.post(f"runs/{prices.pk}/messages", {"text": "Look in June."}, **key)
    assert (other.status, other.meta["code"]) == (422, "idempotency_mismatch")
    assert api.post(f"runs/{prices.pk}/steer", {"command": "add_constraint", "text": "Be brief"}).status == 200
    assert api.post(f"runs/{prices.pk}/steer", {"command": "shout"}).status == 400
    assert api.post(f"runs/{prices.pk}/steer", {"command": "pause_requested"}).status == 200
    assert [*prices.messages.values_list("kind", "text")][1:] == [
        ("person", "Look in May."),
        ("directive", "Further constraint: Be brief"),
    ]
    listed = {each["workstream"]: each["isPaused"] for each in api.get(f"runs/{root.pk}/workstreams").data}
    assert listed == {"prices": True, "news": False}
    for target, status, code in ((root, 409, "not_a_workstream"), (foreign, 404, "not_found")):
        refused = api.post(f"runs/{target.pk}/messages", {"text": "Hi"})
        assert (refused.status, refused.meta["code"]) == (status, code)
    api.post(f"runs/{news.pk}/cancel")
    asked = api.post("runs/messages", {"runs": [str(run.pk) for run in (prices, news, foreign)], "text": "All of you"})
    assert [(each["isSent"], each["errorCode"]) for each in asked.data] == [
        (True, None),
        (False, "workstream_ended"),
        (False, "not_found"),
    ]
    assert not foreign.messages.filter(kind="person").exists()
    again = launch(root.pk, "again")
    group = {"parentRunId": str(root.pk)}
    for command, text in (("add_instruction", "Be brief"), ("pause_requested", ""), ("stop", "")):
        asked = api.post("runs/messages", {**group, "command": command, "text": text})
        assert {each["runId"]: each["isSent"] for each in asked.data} == {str(prices.pk): True, str(again.pk): True}
    again.refresh_from_db()
    assert (again.status, again.messages.filter(kind="directive").count()) == ("cancelled", 1)
    assert api.post("runs/messages", {**group, "text": "Hi"}).data == [], "none of them works"
    (root_refused,) = api.post("runs/messages", {"runs": [str(root.pk)], "command": "stop"}).data
    assert root_refused["errorCode"] == "not_a_workstream"
    for body, status in (({"text": "Hi"}, 400), ({"parentRunId": str(foreign.parent_id), "text": "Hi"}, 404)):
        assert api.post("runs/messages", body).status == status


def test_a_run_of_another_session_is_not_cancelled_with_ones_own():
    alice, bob = make_user("alice"), make_user("bob")
    run = make_run(make_session(bob), RunStatus.WAITING, waiting_on="tools")
    answer = RestCaller(alice).post(f"sessions/{make_session(alice).pk}/cancel", {"runId": str(run.pk)})
    assert answer.data == {"cancelled": 0}
    assert Run.objects.get(pk=run.pk).status == RunStatus.WAITING


def page(user: User, session: Session) -> tuple[str, int]:
    """Return the page of a session, and the number of queries that it took."""
    browser = Client()
    browser.force_login(user)
    with CaptureQueriesContext(connection) as queries:
        html = browser.get(f"/chat/{session.pk}").content.decode()
    return html, len(queries)


def test_a_page_takes_as_many_queries_for_thirty_workstreams_as_for_two():
    alice = make_user("alice")
    session = make_session(alice)
    root = make_run(session, RunStatus.WAITING, waiting_on="children")
    first = launch(root.pk, "first")
    launch(first.pk, "inner")
    _, few = page(alice, session)
    for number in range(28):
        inside = launch(root.pk, f"w{number}")
        Run.objects.filter(pk=inside.pk).update(status="waiting", waiting_on="tools")
        make_execution(inside, status="Running")
    html, many = page(alice, session)
    assert html.count('class="workstream"') == 30 and html.count("using echo") == 28
    assert many <= few + 2  # the tools that they execute, and their approvals


def test_a_workstream_is_stopped_by_the_button_of_its_card():
    alice = make_user("alice")
    session = make_session(alice)
    child = launch(make_run(session, RunStatus.WAITING, waiting_on="children").pk, "prices")
    html, _ = page(alice, session)
    assert f'hx-post="/chat/runs/{child.pk}/stop"' in html
    for user, status in ((make_user("bob"), 404), (alice, 302)):
        browser = Client()
        browser.force_login(user)
        assert browser.post(f"/chat/runs/{child.pk}/stop").status_code == status
        assert (Run.objects.get(pk=child.pk).ended_at is not None) is (user is alice)
    html, _ = page(alice, session)
    assert "stopped" in html and "/stop" not in html[html.index('class="workstream"') :].split("</details>")[0]

"""Agent runs over plain requests: access, responses, and the shape of errors."""

import gzip
import json
from typing import Any
from uuid import uuid4

import jwt
import pytest

from agents_app.models import Agent, Run
from agents_app.runs.run_policy import limits_of, model_of, policy_of, session_policy_of
from agents_app.types import RunOptions, RunStatus
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import signed_urls, urls
from tests.support.agents import AgentCaller
from tests.support.rest import make_run, make_session, make_user
from tests.support.rights import make_operator
from tools_app.policy.decide import Allow, decide
from tools_app.policy.patterns import PolicyCall
from tools_app.registry import tools
from tools_app.types import Risk

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

# Every route that names a run, with the methods that it has.
OF_RUNS = {
    "run-detail": ("agents/{}", "GET DELETE"),
    "run-restart": ("agents/{}/restart", "POST"),
    "run-fork": ("agents/{}/fork", "POST"),
    "run-status": ("agents/{}/status", "POST"),
    "run-internals": ("agents/{}/internals", "GET"),
    "run-details": ("agents/{}/details", "GET"),
    "run-children": ("agents/{}/children", "GET"),
    "run-child-details": ("agents/{}/children/x/details", ""),
    "run-signal": ("agents/{}/signal/Stop", "POST"),
    "run-query": ("agents/{}/query/AgentPlan", "GET"),
    "run-updates": ("agents/{}/updates", "GET POST"),
    "run-events": ("agents/{}/events", "POST"),
    "artifact-list": ("agents/{}/artifacts", "GET"),
    "artifact": ("agents/{}/artifacts/files/a.txt", "PUT"),
    "artifact-content": ("agents/{}/artifact-content/files/a.txt", ""),
    "workflow-post": ("workflows/runs/{}/updates", "POST"),
    "workflow-details": ("workflows/runs/agent-{0}/{0}", "GET"),
    "workflow-updates": ("workflows/runs/agent-{0}/{0}/updates", "GET"),
    "workflow-signal": ("workflows/runs/agent-{0}/{0}/signal/Stop", "POST"),
    "workflow-query": ("workflows/runs/agent-{0}/{0}/query/AvailableTools", "GET"),
    "workflow-events": ("workflows/runs/agent-{0}/{0}/events", "POST"),
    "workflow-interaction": ("workflows/runs/agent-{0}/{0}/interaction", "GET"),
    "workflow-action": ("workflows/runs/agent-{0}/{0}/actions/cancel", "POST"),
}
CASES = [(name, method) for name, (_, methods) in OF_RUNS.items() for method in (methods.split() or ["GET"])]
OTHERS = {"artifact-blob", "workflow-execute", "run-workflow", "document", "document-text"}


def test_every_route_of_a_run_is_covered_here() -> None:
    named = {pattern.name for pattern in urls.urlpatterns if "<str:" in str(pattern.pattern)}
    assert named == set(OF_RUNS) | OTHERS


@pytest.mark.parametrize(("name", "method"), CASES)
def test_only_its_owner_can_access_a_run(alice: Any, name: str, method: str) -> None:
    run_id, path = make_session(alice).id, OF_RUNS[name][0]
    for other in (AgentCaller(make_user("bob")), AgentCaller(make_operator("carol"))):
        foreign, missing = (other(method, path.format(each)) for each in (run_id, uuid4()))
        assert foreign.status == missing.status == 404
        assert foreign.data == missing.data and foreign.data["message"]
    assert AgentCaller()(method, path.format(run_id)).status == 401


@pytest.mark.parametrize(("name", "method"), [case for case in CASES if OF_RUNS[case[0]][1]])
def test_the_owner_can_use_every_route(alice: Any, caller: AgentCaller, name: str, method: str) -> None:
    answer = caller(method, OF_RUNS[name][0].format(make_session(alice).id))
    assert answer.status == 200, answer.data


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "agents/not-an-id", 404, "not_found"),
        ("GET", "nowhere", 404, "not_found"),
        ("PATCH", "nowhere/else", 404, "not_found"),
        ("PATCH", "agents", 405, "method_not_allowed"),
        ("GET", "agents?limit=x", 400, "invalid_limit"),
        ("GET", "agents?status=odd", 400, "invalid_status"),
        ("GET", "agents?since=yesterday", 400, "invalid_since"),
        ("GET", "agents?cursor=x", 400, "invalid_cursor"),
        ("POST", "agents/analytics/summary", 501, "not_implemented"),
        ("POST", "agents/record", 501, "not_implemented"),
        ("POST", "agents/x/advance", 501, "not_implemented"),
        ("GET", "pending-asks", 501, "not_implemented"),
        ("GET", "artifact-blobs/nonsense/a.txt", 403, "url_refused"),
        ("POST", "files/download-url", 404, "no_such_file"),
    ],
)
def test_errors_have_the_protocols_shape(caller: AgentCaller, method: str, path: str, status: int, code: str) -> None:
    answer = caller(method, path)
    assert (answer.status, answer.data["code"], answer.data["status"]) == (status, code, status)
    assert isinstance(answer.data["message"], str) and answer.headers["Content-Type"] == "application/json"


def test_a_body_that_is_no_object_is_refused_everywhere(caller: AgentCaller, alice: Any) -> None:
    run_id = make_session(alice).id
    for path in ("agents", f"agents/{run_id}/updates", f"agents/{run_id}/signal/UserInput", f"agents/{run_id}/status"):
        assert caller("POST", path, [1]).status == 400
        assert caller("POST", path, b"{").status == 400


def test_requests_over_the_limit_have_a_retry_delay(caller: AgentCaller, settings: Any) -> None:
    settings.KOMAND_API_LIMIT, settings.KOMAND_API_WINDOW_SECONDS = 1, 60
    caller("GET", "agents")
    refused = caller("GET", "agents")
    assert refused.status == 429 and refused.headers["X-RateLimit-Reason"] == "quota"
    assert int(refused.headers["X-RateLimit-Retry-Ms"]) == 1000 * int(refused.headers["Retry-After"])


def test_a_start_is_one_run_under_its_key(caller: AgentCaller) -> None:
    body = {"interaction": "sys:generic_question", "data": {"task": "go"}, "tags": ["a"]}
    first, again = (caller("POST", "agents", body, Idempotency_Key="k1").data for _ in range(2))
    other = caller("POST", "agents", body, Idempotency_Key="k2").data
    assert first["id"] == again["id"] != other["id"]
    assert (first["status"], first["activity_state"], first["tags"]) == ("running", "working", ["a"])
    assert Turn.objects.filter(session_id=first["id"]).count() == 1


def test_a_start_that_fails_leaves_nothing(caller: AgentCaller) -> None:
    assert caller("POST", "agents", {"interaction": "default", "data": {"task": "x" * 200_001}}).status == 400
    assert (
        caller("POST", "agents", {"interaction": "nobody", "data": {"task": "x"}}).data["code"]
        == "interaction_not_found"
    )
    assert not Session.objects.exists()


def test_a_run_without_a_message_waits_for_one(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data
    assert (run["status"], run["activity_state"]) == ("running", "idle")
    assert [message["t"] for message in caller.messages(run["id"])] == [10]


@pytest.mark.parametrize(
    ("is_interactive", "status", "expected"),
    [
        (True, RunStatus.COMPLETED, "running"),
        (True, RunStatus.FAILED, "running"),
        (False, RunStatus.COMPLETED, "completed"),
        (False, RunStatus.FAILED, "failed"),
        (False, RunStatus.TIMED_OUT, "failed"),
        (False, RunStatus.CANCELLED, "running"),
        (False, RunStatus.WAITING, "running"),
        (False, None, "created"),
    ],
)
def test_a_status_is_that_of_the_last_turn_and_is_found_by_it(
    alice: Any, caller: AgentCaller, is_interactive: bool, status: RunStatus | None, expected: str
) -> None:
    session = make_session(alice)
    session.metadata = {"agents": {"interaction": "default", "interactive": is_interactive, "status": ""}}
    session.save()
    if status:
        make_run(session, status)
    assert caller("GET", f"agents/{session.id}").data["status"] == expected
    for name in ("created", "running", "completed", "failed", "cancelled"):
        found = caller("GET", f"agents?status={name}").data["items"]
        assert [run["id"] for run in found] == ([str(session.id)] if name == expected else [])


def test_pages_follow_each_other_in_either_order(caller: AgentCaller) -> None:
    made = [caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"] for _ in range(5)]
    for order, expected in (("desc", made[::-1]), ("asc", made)):
        found: list[str] = []
        cursor = ""
        while cursor is not None:
            page = caller("GET", f"agents?limit=2&order={order}&cursor={cursor}").data
            found += [run["id"] for run in page["items"]]
            cursor = page["next_cursor"]
        assert found == expected and page["total_count"] == 5


def test_runs_are_found_by_the_text_of_turns(caller: AgentCaller) -> None:
    first = caller.start("the green door", title="A talk", tags=["a"], categories=["x"])
    caller.start("something else", title="The green title")
    hits = caller("GET", "agents/search?query=GREEN").data
    assert hits["total"] == 2 and {hit["score"] for hit in hits["hits"]} == {1.0, 2.0}
    tagged = caller("GET", "agents/search?query=green&tags=a,b&categories=x").data["hits"]
    assert [hit["id"] for hit in tagged] == [first["id"]]


def test_posted_messages_get_the_servers_time(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data
    posted = {"timestamp": 5, "type": 2, "message": "Plan", "details": {"plan": [{"id": 1, "goal": "Go"}]}}
    assert caller("POST", f"workflows/runs/{run['id']}/updates", posted).data == {"success": True}
    assert caller("POST", f"agents/{run['id']}/updates", {"type": 14}).data == {"success": True}
    first, plan, restarting = caller.messages(run["id"])
    assert plan["m"] == "Plan" and plan["d"] == posted["details"] and plan["ts"] > first["ts"] > 10**12
    assert restarting["t"] == 14
    assert caller("POST", f"agents/{run['id']}/updates", {"type": 12}).data["code"] == "chunk_posted"
    assert caller("POST", f"agents/{run['id']}/updates", {"kind": 1}).data["code"] == "unknown_key"


def test_updates_are_sorted_paged_and_compressed(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    for number in range(45):
        caller("POST", f"agents/{run}/updates", {"message": f"step {number} " + "x" * 60})
    all_of_them = caller.messages(run)
    times = [message["ts"] for message in all_of_them]
    assert times == sorted(set(times)) and all(isinstance(ts, int) for ts in times)
    assert caller.messages(run, f"?since={times[30]}") == all_of_them[31:]
    assert caller.messages(run, f"?limit=3&before={times[30]}") == all_of_them[27:30]
    packed = caller("GET", f"agents/{run}/updates", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.data))["messages"] == all_of_them


def test_a_session_of_another_surface_is_a_run_too(alice: Any, caller: AgentCaller) -> None:
    session = make_session(alice)
    run = caller("GET", f"agents/{session.id}").data
    assert (run["interaction"], run["interactive"], run["status"]) == ("default", True, "running")
    assert caller("GET", "agents").data["items"] == []


def test_a_key_that_may_only_read_changes_nothing(alice: Any) -> None:
    reader = AgentCaller(bearer=create_api_key(alice, "reader", scopes=["read"]).key)
    run = make_session(alice).id
    assert reader("GET", f"agents/{run}").status == 200
    for method, path in (("POST", "agents"), ("DELETE", f"agents/{run}"), ("POST", f"agents/{run}/signal/Stop")):
        assert reader(method, path, {}).data["code"] == "read_only_key"


def test_a_token_is_issued_for_a_key_and_ends_with_it(alice: Any) -> None:
    key = create_api_key(alice, "agents", scopes=["read"])
    issued = AgentCaller(bearer=key.key)("POST", "/token/issue").data["token"]
    claims = jwt.decode(issued, options={"verify_signature": False})
    assert claims["exp"] > claims["iat"] and claims["endpoints"]["store"].startswith("http")
    caller = AgentCaller(bearer=issued)
    assert caller("GET", "agents").status == 200
    assert caller("POST", "agents", {}).data["code"] == "read_only_key"
    assert AgentCaller(bearer=caller("POST", "/token/issue").data["token"])("GET", "agents").status == 200
    revoke_api_key(alice, key.row.pk)
    assert caller("GET", "agents").data["code"] == "token_refused"


def test_a_token_is_issued_for_a_login_but_not_without_a_credential(alice: Any, caller: AgentCaller) -> None:
    token = caller("POST", "/token/issue").data["token"]
    assert AgentCaller(bearer=token)("GET", "agents").status == 200
    alice.set_password("another-secret")
    alice.save()
    assert AgentCaller(bearer=token)("GET", "agents").status == 401
    assert AgentCaller(bearer="sk-user-wrong")("POST", "/token/issue").status == 401
    assert AgentCaller()("POST", "/token/issue").status == 401


def test_files_are_written_and_read_by_signed_urls(caller: AgentCaller) -> None:
    run, anyone = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"], AgentCaller()
    path, page = f"agents/{run}/artifacts/files/a%20b.html", b"<script>x</script>"
    granted = caller("PUT", path, Content_Type="text/html").data
    assert granted["path"] == f"agents/{run}/files/a b.html"
    assert anyone("PUT", granted["url"], page, Content_Type="text/html; charset=utf-8").status == 200
    assert anyone("GET", granted["url"]).status == 403  # for writing only
    wanted = "url=1&disposition=attachment&filename=ü.html"
    read = caller("GET", f"{path.replace('files/', f'agents/{run}/files/')}?{wanted}").data
    shown = anyone("GET", read["url"])
    assert shown.data == page and shown.headers["Content-Security-Policy"].startswith("sandbox;")
    assert shown.headers["Content-Disposition"] == "attachment; filename*=utf-8''%C3%BC.html"
    assert anyone("PUT", read["url"], b"x").status == 403  # for reading only
    assert caller("GET", f"files/list?prefix=agents/{run}/files").data["files"] == [granted["path"]]


@pytest.mark.parametrize("path", ["files/..%2Fx", "etc/passwd", "files/", "files/a%3Fb"])
def test_bad_paths_are_refused(caller: AgentCaller, path: str) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    assert caller("PUT", f"agents/{run}/artifacts/{path}").status in (400, 404)


def test_a_signed_url_expires_and_ends_with_its_session(caller: AgentCaller, monkeypatch: Any) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    url = caller("PUT", f"agents/{run}/artifacts/files/a.txt").data["url"]
    with monkeypatch.context() as patch:
        patch.setattr(signed_urls, "SECONDS", -1)
        late = caller("PUT", f"agents/{run}/artifacts/files/a.txt").data["url"]
    assert caller("PUT", late, b"x").status == 403
    assert caller("PUT", url, b"x").status == 200
    Session.objects.filter(pk=run).delete()
    assert caller("PUT", url, b"x").status == 403


def test_a_file_over_the_limit_is_refused(caller: AgentCaller, settings: Any) -> None:
    settings.KOMAND_ARTIFACT_MAX_BYTES = 10
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    url = caller("PUT", f"agents/{run}/artifacts/files/a.txt").data["url"]
    assert caller("PUT", url, b"x" * 11).status == 413


def test_a_text_is_changed_only_with_its_generation(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    caller("PUT", caller("PUT", f"agents/{run}/artifacts/files/a.md").data["url"], "grün".encode())
    path = f"agents/{run}/artifact-content/files/a.md"
    known = caller("GET", path).data
    assert known["content"] == "grün"
    changed = caller("PUT", path, {"content": "rot", "generation": known["generation"]}).data
    assert (
        caller("PUT", path, {"content": "blau", "generation": known["generation"]}).data["code"] == "artifact_changed"
    )
    assert caller("GET", path).data == {**changed, "content": "rot"}
    last = caller.messages(run)[-1]
    assert (last["t"], last["d"]["event_class"], last["d"]["source"]) == (3, "artifact_updated", "user_edit")
    assert caller("PUT", f"agents/{run}/artifact-content/files/b.md", {"content": "x", "generation": "y"}).status == 404


def test_a_model_is_chosen_by_who_may_change_the_agent(caller: AgentCaller, alice: Any) -> None:
    body = {"interaction": "default", "interactive": True, "config": {"model": "big"}}
    refused = caller("POST", "agents", body)
    assert (refused.status, refused.data["code"]) == (403, "model_not_allowed")
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    assert caller("POST", f"agents/{run}/signal/ModelConfigChanged", {"model": "big"}).status == 403
    Agent.objects.update(owner_id=alice.pk)
    assert caller("POST", f"agents/{run}/signal/ModelConfigChanged", {"model": "big"}).status == 200
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "go"})
    assert RunOptions.from_dict(Run.objects.get().options).model == "big"
    stored = Run.objects.get()
    assert model_of(stored, stored.agent.provider) == "big"
    caller("POST", f"agents/{run}/signal/ModelConfigChanged", {"model": None})
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "again"})
    assert RunOptions.from_dict(Run.objects.order_by("ordinal")[1].options).model == ""


@pytest.mark.parametrize(
    ("signal", "body"),
    [
        ("ToolApprovalModeChanged", {"mode": "yolo"}),
        ("ToolApprovalModeChanged", {}),
        ("ModelConfigChanged", {"effort": "high"}),
    ],
)
def test_a_signal_that_changes_nothing_is_refused(caller: AgentCaller, signal: str, body: dict[str, str]) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    refused = caller("POST", f"agents/{run}/signal/{signal}", body)
    code = "unsupported_option" if signal == "ModelConfigChanged" else "invalid_value"
    assert (refused.status, refused.data["code"]) == (400, code)


@pytest.mark.parametrize(
    ("autonomy", "mode", "in_force"),
    [
        ("supervised", "full_control", "ask"),
        ("supervised", "auto_review", "ask"),
        ("readonly", "full_control", "ask"),
        ("full", "ask", "ask"),
        ("full", "auto_review", "ask"),
        ("full", "full_control", "full_control"),
    ],
)
@pytest.mark.parametrize("by_signal", [False, True])
def test_a_mode_of_approvals_never_allows_more_than_the_agent(
    caller: AgentCaller, autonomy: str, mode: str, in_force: str, by_signal: bool
) -> None:
    Agent.objects.filter(agent_id="default").update(autonomy=autonomy)
    wanted = {} if by_signal else {"tool_approval_mode": mode}
    run = caller("POST", "agents", {"interaction": "default", "interactive": True, **wanted}).data["id"]
    if by_signal:
        assert caller("POST", f"agents/{run}/signal/ToolApprovalModeChanged", {"mode": mode}).status == 200
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "go"})
    stored = Run.objects.select_related("agent").get()
    call = PolicyCall(tools.get("write_artifact").spec, {"path": "files/a.txt", "content": "x"})
    verdict = decide(call, Risk.HIGH, policy_of(stored), "user:1", session_policy_of(stored))
    assert isinstance(verdict, Allow) is (in_force == "full_control")
    assert caller("GET", f"agents/{run}").data["tool_approval_mode"] == in_force


def test_there_are_no_installed_apps(caller: AgentCaller) -> None:
    found = caller("GET", "apps/installations?kind=tools")
    assert (found.status, found.data) == (200, [])


def test_a_checkpoint_is_made_on_request_if_there_is_something_to_summarise(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    ignored = caller("POST", f"agents/{run}/signal/TriggerCheckpoint", {"reason": "full"})
    assert (ignored.status, ignored.data["status"]) == (200, "ignored")
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "go"})
    assert caller("POST", f"agents/{run}/signal/TriggerCheckpoint").data["status"] == "success"
    assert Run.objects.order_by("-ordinal")[0].options == {"compacts_only": True}


def test_a_checkpoint_of_an_ended_run_is_refused(caller: AgentCaller) -> None:
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "go"})
    caller("DELETE", f"agents/{run}")
    refused = caller("POST", f"agents/{run}/signal/TriggerCheckpoint")
    assert (refused.status, refused.data["code"]) == (409, "run_ended")
    assert Run.objects.count() == 1


def test_the_mode_of_approvals_that_the_agent_has_is_taken(caller: AgentCaller) -> None:
    body = {"interaction": "default", "interactive": True, "tool_approval_mode": "ask", "max_iterations": 1}
    run = caller("POST", "agents", body).data["id"]
    assert caller("POST", f"agents/{run}/signal/ToolApprovalModeChanged", {"mode": "ask"}).status == 200
    caller("POST", f"agents/{run}/signal/UserInput", {"message": "go"})
    assert limits_of(Run.objects.get()).tool_rounds == 1

"""Credentials of others, on other hosts, under wider permissions, and in what approvers and the audit log see."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import context
from audit_app.kernel.redact import MASK
from audit_app.models import AuditEntry, Event
from sessions_app.services import NewMessage, receive
from tests.fakes.http_protocol import HttpRequest as Received
from tests.fakes.http_server import FakeServer
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller, make_agent, make_user
from tests.support.rights import make_operator
from tools_app.builtin.http_request import HttpRequest
from tools_app.models import Approval, Credential, Grant, ToolExecution
from tools_app.policy import credential_access
from tools_app.policy.decide import Allow, Ask, Situation, decide
from tools_app.policy.patterns import PolicyCall, parse
from tools_app.policy.rules import AgentPolicy
from tools_app.policy.suggestions import propose
from tools_app.registry import tools
from tools_app.rights import ALLOW_ALWAYS, DECIDE_APPROVALS
from tools_app.secrets.credentials import share_credential, store_credential
from tools_app.skills import registry
from tools_app.types import ExecutionStatus, Risk, ToolCall
from tools_app.types.credential_use import INSTALLATION, CredentialUse

pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

VALUE = "alices-value-4711"
PAY = "{{credential:pay}}"
SKILL = "skill__paysk"


class Listener(FakeServer):
    """A server that stands in for one on the internet. received: its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[Received] = []

    def take(self, request: Received) -> tuple[int, dict[str, str], bytes]:
        self.received.append(request)
        return 200, {"content-type": "text/plain"}, b"ok"


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    with Listener() as server:
        for name in ("KOMAND_SKILL_ALLOW_PRIVATE", "KOMAND_FETCH_ALLOW_PRIVATE", "KOMAND_HTTP_REQUEST_HOSTS"):
            monkeypatch.setattr(settings, name, [server.address])
        yield server


@pytest.fixture(autouse=True)
def _http_request() -> Iterator[None]:
    with tools.override(HttpRequest()):
        yield


@pytest.fixture
def rig(rig: EngineRig) -> EngineRig:
    """A gateway whose owner, alice, has the credential `pay`."""
    store_credential("pay", VALUE, owner_id=rig.owner.pk, hosts=["127.0.0.1"])
    return rig


@pytest.fixture
def bob(rig: EngineRig) -> User:
    return make_user("bob")


def install_skill(rig: EngineRig, listener: Listener, *, owner_id: int | None) -> None:
    header = {"Authorization": f"Bearer {PAY}"}
    request = {"method": "POST", "url": f"{listener.url}/pay", "headers": header, "json": {"to": "{{input.to}}"}}
    to = {"type": "object", "properties": {"to": {"type": "string"}}}
    about = {"skillId": "paysk", "name": "Pay", "version": "1.0.0", "publisherId": "acme"}
    registry.register({**about, "inputSchema": to, "http": request})
    registry.install("default", "paysk", owner_id=owner_id)


def ask(rig: EngineRig, user: User, *calls: tuple[str, dict[str, Any]], **agent: Any) -> Any:
    """Let the user's run make these calls, each in a step of its own. Return what was accepted."""
    steps = [ToolCall(f"c{number}", name, json.dumps(given)) for number, (name, given) in enumerate(calls)]
    rig.agent(*(Reply(tool_calls=(call,)) for call in steps), Reply(("Over.",)), **agent)
    with context.bind(actor=f"user:{user.pk}"):
        message = NewMessage("WebChat", "default", str(user.pk), user.username, "go")
        return receive(message, owner=user)


def asked(count: int = 1) -> Approval:
    """Wait for that many requests, and return the newest."""
    until(lambda: Approval.objects.count() >= count)
    return Approval.objects.select_related("execution").order_by("-id")[0]


def post(listener: Listener, **more: Any) -> tuple[str, dict[str, Any]]:
    return "http_request", {"method": "POST", "url": f"{listener.url}/widen", **more}


def decide_over_rest(user: User, approval: Approval, decision: str = "allow_once") -> int:
    answer = RestCaller(user).post(f"approvals/{approval.pk}/decide", {"decision": decision})
    return answer.status


@pytest.mark.parametrize("approvers", ["operators", "owners"])
def test_a_credential_that_is_not_shared_is_not_used_for_another_user(
    approvers: str, rig: EngineRig, bob: User, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KOMAND_APPROVERS", approvers)
    install_skill(rig, listener, owner_id=rig.owner.pk)
    accepted = ask(rig, bob, (SKILL, {"to": "bob"}), autonomy="full")
    rig.wait(accepted.run_id)
    execution = ToolExecution.objects.get()
    assert execution.status == ExecutionStatus.FAILED
    assert "'pay' of alice is not shared with the agent default" in (execution.error or "")
    assert not Approval.objects.exists()
    assert not listener.received
    refusal = AuditEntry.objects.get(action="CredentialRefused", actor=f"user:{bob.pk}", agent_id="default")
    assert refusal.details["names"] == ["pay"]


def test_the_owner_of_a_shared_credential_decides_about_it_and_not_the_user_of_the_run(
    rig: EngineRig, bob: User, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KOMAND_APPROVERS", "owners")
    install_skill(rig, listener, owner_id=rig.owner.pk)
    share_credential("pay", ["default"], owner_id=rig.owner.pk)
    accepted = ask(rig, bob, (SKILL, {"to": "bob-by-himself"}))
    approval = asked()
    assert "credential “pay” of alice" in approval.reason
    carol = make_user("carol")
    assert decide_over_rest(carol, approval) == 404
    assert decide_over_rest(bob, approval) == 403
    (own,) = RestCaller(bob).get("approvals").data
    assert (own["mayDecide"], own["credentials"], own["choices"]) == (False, ["pay"], [])
    assert RestCaller(carol).get("approvals").data == []
    assert not listener.received
    (offered,) = RestCaller(rig.owner).get("approvals?status=pending").data
    assert (offered["mayDecide"], offered["credentialOwner"]) == (True, f"user:{rig.owner.pk}")
    assert decide_over_rest(rig.owner, approval) == 200
    rig.wait(accepted.run_id)
    assert [request.headers["authorization"] for request in listener.received] == [f"Bearer {VALUE}"]


def test_by_default_only_an_operator_decides_about_it(rig: EngineRig, bob: User, listener: Listener) -> None:
    install_skill(rig, listener, owner_id=rig.owner.pk)
    share_credential("pay", ["default"], owner_id=rig.owner.pk)
    accepted = ask(rig, bob, (SKILL, {"to": "bob"}))
    approval = asked()
    assert [decide_over_rest(user, approval) for user in (rig.owner, bob)] == [404, 403]
    assert decide_over_rest(make_operator("op", DECIDE_APPROVALS), approval) == 200
    rig.wait(accepted.run_id)
    assert len(listener.received) == 1


def test_a_share_is_withdrawn_also_for_a_call_that_waits(rig: EngineRig, bob: User, listener: Listener) -> None:
    install_skill(rig, listener, owner_id=rig.owner.pk)
    share_credential("pay", ["default"], owner_id=rig.owner.pk)
    accepted = ask(rig, bob, (SKILL, {"to": "bob"}))
    approval = asked()
    share_credential("pay", [], owner_id=rig.owner.pk)
    assert decide_over_rest(make_operator("op", DECIDE_APPROVALS), approval) == 200
    rig.wait(accepted.run_id)
    assert "is not shared" in (ToolExecution.objects.get().error or "")
    assert not listener.received


def test_a_credential_of_the_installation_is_shared_with_an_agent_before_runs_use_it(
    rig: EngineRig, listener: Listener
) -> None:
    store_credential("pay", "of-the-installation", owner_id=None)
    install_skill(rig, listener, owner_id=None)
    for agents, expected in (([], []), (["other"], []), (["default"], ["Bearer of-the-installation"])):
        share_credential("pay", agents, owner_id=None)
        accepted = ask(rig, rig.owner, (SKILL, {"to": "x"}), autonomy="full")
        rig.wait(accepted.run_id)
        assert [request.headers["authorization"] for request in listener.received] == expected


@pytest.mark.parametrize("decision", ["allow_run", "allow_always"])
def test_a_permission_without_a_credential_does_not_cover_a_call_with_one(
    decision: str, rig: EngineRig, listener: Listener
) -> None:
    operator = make_operator("op", DECIDE_APPROVALS, ALLOW_ALWAYS)
    with_credential = {"headers": {"Authorization": PAY}}
    accepted = ask(rig, rig.owner, post(listener), post(listener), post(listener, **with_credential))
    first = asked()
    assert decide_over_rest(operator, first, decision) == 200
    second = asked(2)
    assert second.execution.arguments["headers"] == {"Authorization": PAY}
    assert len(listener.received) == 2  # the second call was covered
    assert decide_over_rest(operator, second, decision) == 200
    rig.wait(accepted.run_id)
    granted = set(Grant.objects.values_list("pattern", flat=True))
    assert granted == {first.pattern, f"{first.pattern} using user:{rig.owner.pk}/pay"}


def _call(*labels: str) -> PolicyCall:
    arguments = {"method": "POST", "url": "https://api.example.com/pay"}
    return PolicyCall(HttpRequest.spec, arguments, credentials=labels)


@pytest.mark.parametrize(
    ("pattern", "labels", "is_covered"),
    [
        ("http_request", (), True),
        ("http_request", ("user:1/pay",), False),
        ("http_request(method=POST, url=https://api.example.com/*)", ("user:1/pay",), False),
        ("*", ("user:1/pay",), False),
        ("http_request using pay", ("user:1/pay",), True),
        ("http_request using user:1/pay", ("user:1/pay",), True),
        ("http_request using user:1/pay", ("user:2/pay",), False),
        ("http_request using pay", ("user:1/pay", "user:1/other"), False),
        ("http_request using pay, other", ("user:1/pay", "user:1/other"), True),
        ("http_request using pay", (), True),
        ("http_request using installation/pay", ("user:1/pay",), False),
    ],
)
def test_every_kind_of_permission_has_to_name_the_credentials(
    pattern: str, labels: tuple[str, ...], is_covered: bool
) -> None:
    for policy, situation in (
        (AgentPolicy(auto_approve=(pattern,)), Situation()),
        (AgentPolicy(), Situation(grants=(pattern,))),
        (AgentPolicy(), Situation(run_grants=(pattern,))),
    ):
        verdict = decide(_call(*labels), Risk.HIGH, policy, "user:1", situation=situation)
        assert isinstance(verdict, Allow if is_covered else Ask)


def test_a_restriction_to_allowed_calls_and_a_denial_hold_whatever_the_credentials() -> None:
    call = _call("user:1/pay")
    assert isinstance(decide(call, Risk.LOW, AgentPolicy(allowed=("http_request",)), "user:1"), Allow)
    assert parse("http_request").refuses(call)
    assert parse("http_request using pay").refuses(call)
    assert not parse("http_request using pay").refuses(_call())


def test_a_suggested_permission_names_the_credentials_and_covers_the_call() -> None:
    call = _call("user:1/pay", "user:1/other")
    proposal = propose(call)
    for pattern in (proposal.run, proposal.always):
        assert pattern.endswith(" using user:1/pay, user:1/other")
        assert parse(pattern).permits(call)
        assert not parse(pattern).permits(_call("user:1/third"))


def test_a_credential_is_sent_to_no_other_host(rig: EngineRig, listener: Listener) -> None:
    store_credential("pay", VALUE, owner_id=rig.owner.pk, hosts=["api.example.com"])
    accepted = ask(rig, rig.owner, post(listener, headers={"X": PAY}), autonomy="full")
    rig.wait(accepted.run_id)
    assert "must not be sent to 127.0.0.1" in (ToolExecution.objects.get().error or "")
    assert not listener.received
    assert AuditEntry.objects.filter(action="CredentialRefused", actor=f"user:{rig.owner.pk}").exists()
    assert not AuditEntry.objects.filter(action="CredentialAccessed").exists()


def test_a_skill_sends_it_to_no_other_host_either(rig: EngineRig, listener: Listener) -> None:
    install_skill(rig, listener, owner_id=rig.owner.pk)
    store_credential("pay", VALUE, owner_id=rig.owner.pk, hosts=["api.example.com"])
    rig.wait(ask(rig, rig.owner, (SKILL, {"to": "x"}), autonomy="full").run_id)
    assert not listener.received


def test_one_of_an_older_release_without_hosts_goes_only_where_a_skill_is_declared_to_go(
    rig: EngineRig, listener: Listener
) -> None:
    Credential.objects.update(hosts=[])
    install_skill(rig, listener, owner_id=rig.owner.pk)
    rig.wait(ask(rig, rig.owner, post(listener, headers={"X": PAY}), (SKILL, {"to": "x"}), autonomy="full").run_id)
    refused, done = ToolExecution.objects.order_by("id")
    assert "names no hosts" in (refused.error or "")
    assert done.status == ExecutionStatus.COMPLETED
    assert [request.headers["authorization"] for request in listener.received] == [f"Bearer {VALUE}"]


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://api.example.com/a", True),
        ("https://API.example.com:443/a", True),
        ("https://pay.example.org:8443/", True),
        ("https://pay.example.org/", False),
        ("https://api.example.com.evil.example/", False),
        ("https://evil.example/api.example.com", False),
        ("https://api.example.com@evil.example/", False),
        ("https://evil.example#@api.example.com/", False),
        ("https://evil.example\\@api.example.com/", False),
        ("https:evil.example//api.example.com", False),
        ("//api.example.com/", False),
        ("", False),
    ],
)
def test_hosts_are_compared_strictly(url: str, is_sent: bool, django_user_model: Any, db: None) -> None:
    alice = make_user("alice")
    store_credential("pay", VALUE, owner_id=alice.pk, hosts=["api.example.com", "*.example.org:8443"])
    use = CredentialUse(("pay",), f"user:{alice.pk}", url)
    assert (credential_access.find_refusal(use, agent_id="default", actor=use.owner) == "") is is_sent


@pytest.mark.parametrize("owner", ["", "sender:Telegram:7", "agent:default", "user:x", "user:", INSTALLATION])
def test_actors_who_are_no_users_own_no_credential(owner: str, db: None) -> None:
    store_credential("pay", VALUE, owner_id=None)
    use = CredentialUse(("pay",), owner, "https://api.example.com/", has_fixed_host=True)
    assert credential_access.find_refusal(use, agent_id="default", actor="user:1")


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key", "Cookie"])
def test_an_approver_sees_the_reference_and_never_the_value(header: str, rig: EngineRig, listener: Listener) -> None:
    ask(rig, rig.owner, post(listener, headers={header: PAY}))
    approval = asked()
    shown = RestCaller(make_operator("op")).get(f"approvals/{approval.pk}").data
    assert shown["parameters"]["headers"] == {header: PAY}
    assert "credential “pay” of alice" in shown["reason"]
    assert VALUE not in json.dumps(shown)
    requested = Event.objects.get(type="approval.requested").payload
    assert requested["arguments"]["headers"] == {header: PAY}


def test_a_secret_in_a_body_is_masked_where_it_is_shown_and_stored_and_sent_as_it_is(
    rig: EngineRig, listener: Listener
) -> None:
    body = json.dumps({"user": "bob", "password": "hunter2", "deep": json.dumps({"api_key": "hunter2"})})
    accepted = ask(rig, rig.owner, post(listener, body=body))
    approval = asked()
    operator = make_operator("op")
    shown = RestCaller(operator).get(f"approvals/{approval.pk}").data
    assert shown["parameters"]["body"] == body.replace("hunter2", f"{MASK} (7 characters)")
    assert shown["places"] == [urlsplit(listener.url).netloc]
    assert decide_over_rest(operator, approval) == 200
    rig.wait(accepted.run_id)
    assert [request.body.decode() for request in listener.received] == [body]
    stored = [*Event.objects.values_list("payload", flat=True), *AuditEntry.objects.values_list("details", flat=True)]
    assert "hunter2" not in json.dumps(stored)


def test_owners_bind_and_share_their_credentials_over_rest(db: None) -> None:
    alice, bob = RestCaller(make_user("alice")), RestCaller(make_user("bob"))
    make_agent("bobs", owner_id=bob.user.pk, is_shared_with_everyone=False)
    make_agent("alices", owner_id=alice.user.pk, is_shared_with_everyone=False)
    assert alice.put("credentials/pay", {"value": VALUE}).meta["code"] == "hosts_required"
    assert alice.put("credentials/pay", {"value": VALUE, "hosts": ["https://x"]}).status == 400
    assert alice.put("credentials/pay", {"value": VALUE, "hosts": ["api.example.com"]}).data["hosts"] == [
        "api.example.com"
    ]
    assert alice.put("credentials/pay", {"hosts": ["evil.example"]}).status == 400  # takes the value again
    assert alice.put("credentials/pay", {"value": VALUE}).data["hosts"] == ["api.example.com"]
    assert alice.put("credentials/pay", {"value": VALUE, "hosts": []}).meta["code"] == "hosts_required"
    assert alice.put("credentials/pay", {"agents": ["bobs"]}).meta["code"] == "unknown_agent"
    assert alice.put("credentials/pay", {"agents": ["alices"]}).data["agents"] == ["alices"]
    assert bob.put("credentials/pay", {"agents": ["bobs"]}).status == 404
    assert AuditEntry.objects.filter(action="CredentialShared").count() == 1

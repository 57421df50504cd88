"""The policy's verdicts, and the precedence of its rules."""

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.policy.decide import Allow, Ask, Deny, Situation, decide, narrow, refuse_tool, refuse_url
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.types import Effect, Risk, TargetKind, ToolSpec

FETCH = ToolSpec(
    "fetch",
    "Fetches.",
    {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    effect=Effect.READ,
    risk=Risk.LOW,
    targets={"url": TargetKind.URL},
)
STORE = ToolSpec(
    "store",
    "Stores.",
    {"type": "object", "properties": {"path": {"type": "string"}}},
    targets={"path": TargetKind.PATH},
)


def spec(effect=Effect.ONCE):
    return ToolSpec("mail", "Sends it.", {"type": "object", "properties": {"to": {"type": "string"}}}, effect=effect)


def judge(policy, arguments=None, *, risk=Risk.HIGH, tool=None, session=None, actor="user:1", **situation):
    call = PolicyCall(tool or spec(), arguments or {}, follow=os.path.normpath)
    return decide(call, risk, policy, actor, session or SessionPolicy(), Situation(**situation))


@pytest.mark.parametrize(
    ("autonomy", "effect", "risk", "verdict"),
    [
        ("readonly", Effect.READ, Risk.LOW, Allow),
        ("readonly", Effect.READ, Risk.HIGH, Allow),
        ("readonly", Effect.KEYED, Risk.LOW, Deny),
        ("readonly", Effect.ONCE, Risk.LOW, Deny),
        ("supervised", Effect.READ, Risk.LOW, Allow),
        ("supervised", Effect.ONCE, Risk.LOW, Allow),
        ("supervised", Effect.READ, Risk.MEDIUM, Ask),
        ("supervised", Effect.ONCE, Risk.HIGH, Ask),
        ("full", Effect.ONCE, Risk.HIGH, Allow),
        ("full", Effect.READ, Risk.LOW, Allow),
        ("godlike", Effect.READ, Risk.LOW, Deny),
        ("", Effect.READ, Risk.LOW, Deny),
    ],
)
def test_autonomy_effect_and_risk_decide(autonomy, effect, risk, verdict):
    assert type(decide(PolicyCall(spec(effect), {}), risk, AgentPolicy(autonomy), "user:1")) is verdict


@pytest.mark.parametrize(("tools", "verdict"), [(None, Allow), (("mail",), Allow), (("echo",), Deny), ((), Deny)])
def test_a_tool_must_be_on_the_agents_list_if_there_is_one(tools, verdict):
    assert type(decide(PolicyCall(spec(Effect.READ), {}), Risk.LOW, AgentPolicy("full", tools), "user:1")) is verdict


@pytest.mark.parametrize(
    ("lists", "verdict", "rule"),
    [
        ({}, Ask, "autonomy: supervised"),
        ({"auto_approve": ("mail",)}, Allow, "autoApprove: mail"),
        ({"auto_approve": ("mail(to=a*)",)}, Allow, "autoApprove: mail(to=a*)"),
        ({"auto_approve": ("mail(to=b*)",)}, Ask, "autonomy: supervised"),
        ({"always_ask": ("mail",), "auto_approve": ("*",), "autonomy": "full"}, Ask, "alwaysAsk: mail"),
        ({"denied": ("mail",), "always_ask": ("mail",), "auto_approve": ("mail",)}, Deny, "deniedTools: mail"),
        ({"denied": ("MAIL(to=A*)",), "autonomy": "full"}, Deny, "deniedTools: MAIL(to=A*)"),
        ({"denied": ("mail(to=b*)",), "autonomy": "full"}, Allow, "autonomy: full"),
        ({"allowed": ("echo",), "autonomy": "full"}, Deny, "allowedTools"),
        ({"allowed": ("mail(to=b*)",), "auto_approve": ("mail",)}, Deny, "allowedTools"),
        ({"allowed": ("mail(to=a*)",)}, Ask, "autonomy: supervised"),
        ({"denied": ("mail((",)}, Deny, "unreadable rule"),
    ],
)
def test_deny_beats_ask_beats_allow_beats_autonomy(lists, verdict, rule):
    found = judge(AgentPolicy(**lists), {"to": "ann"})
    assert (type(found), found.rule) == (verdict, rule)


@pytest.mark.parametrize(
    ("lists", "situation", "verdict", "is_standing"),
    [
        ({}, {"grants": ("mail(to=ann)",)}, Allow, None),
        ({}, {"run_grants": ("mail",)}, Allow, None),
        ({}, {"grants": ("mail(to=bob)",)}, Ask, True),
        ({"always_ask": ("mail",)}, {"grants": ("mail",)}, Ask, False),
        ({"always_ask": ("mail",)}, {"run_grants": ("mail",)}, Allow, None),
        ({"denied": ("mail",)}, {"grants": ("mail",), "run_grants": ("mail",)}, Deny, None),
        ({"autonomy": "readonly"}, {"grants": ("mail",)}, Deny, None),
        ({"autonomy": "full"}, {"is_suspect": True}, Ask, False),
        ({"autonomy": "full"}, {"is_suspect": True, "run_grants": ("mail",)}, Allow, None),
        ({"autonomy": "full"}, {"stopped": "All agents are stopped."}, Deny, None),
        ({"autonomy": "full"}, {"spent": "Nothing is left."}, Deny, None),
    ],
)
def test_what_holds_now_counts(lists, situation, verdict, is_standing):
    found = judge(AgentPolicy(**lists), {"to": "ann"}, **situation)
    assert type(found) is verdict
    assert getattr(found, "is_standing", None) is is_standing


def test_reading_on_is_not_asked_about_when_a_run_is_suspect():
    assert isinstance(judge(AgentPolicy("full"), risk=Risk.LOW, is_suspect=True), Allow)


def test_nobody_may_do_nothing():
    assert judge(AgentPolicy("full"), actor="").rule == "actor"


@pytest.mark.parametrize(
    ("session", "effect", "verdict"),
    [
        (SessionPolicy(is_readonly=True), Effect.ONCE, Deny),
        (SessionPolicy(is_readonly=True), Effect.READ, Allow),
        (SessionPolicy(tools=("mail",)), Effect.READ, Allow),
        (SessionPolicy(tools=("post",)), Effect.READ, Deny),
        (SessionPolicy(tools=()), Effect.READ, Deny),
        (SessionPolicy(mcp_servers=()), Effect.READ, Allow),  # it is of no server
        (SessionPolicy(denied=("m*",)), Effect.READ, Deny),
        (SessionPolicy(denied=("mail(to=ann)",)), Effect.READ, Deny),
        (SessionPolicy(denied=("mail(to=bob)",)), Effect.READ, Allow),
    ],
)
def test_a_session_can_only_take_away(session, effect, verdict):
    assert type(judge(AgentPolicy("full"), {"to": "ann"}, tool=spec(effect), session=session)) is verdict


@pytest.mark.parametrize(
    ("hosts", "url", "verdict"),
    [
        ({"denied_hosts": ("evil.net",)}, "https://evil.net/x", Deny),
        ({"denied_hosts": ("evil.net",)}, "https://user@EVIL.net.:8443/x", Deny),
        ({"denied_hosts": ("evil.net",)}, "//evil.net/x", Deny),
        ({"denied_hosts": ("*.evil.net",)}, "https://evil.net/x", Allow),
        ({"denied_hosts": ("127.0.0.1",)}, "http://0x7f000001/", Deny),
        ({"denied_hosts": ("evil.net:8443",)}, "https://evil.net/x", Allow),
        ({"allowed_hosts": ("good.net", "*.good.net")}, "https://a.good.net/x", Allow),
        ({"allowed_hosts": ("good.net",)}, "https://good.net:8443/x", Allow),
        ({"allowed_hosts": ("good.net:443",)}, "https://good.net:8443/x", Deny),
        ({"allowed_hosts": ("good.net:443",)}, "https://good.net/x", Allow),
        ({"allowed_hosts": ("good.net",)}, "https://good.net.evil.net/", Deny),
        ({"allowed_hosts": ("good.net",)}, "https://good.net@evil.net/", Deny),
        ({"allowed_hosts": ("good.net",)}, "good.net", Deny),
        ({"allowed_hosts": ("*",), "denied_hosts": ("evil.net",)}, "https://evil.net/", Deny),
    ],
)
def test_hosts_are_looked_at_before_anything_is_allowed(hosts, url, verdict):
    policy = AgentPolicy("full", auto_approve=("*",), **hosts)
    assert type(judge(policy, {"url": url}, tool=FETCH)) is verdict


def test_a_denied_host_is_found_where_no_argument_is_declared_a_url():
    policy = AgentPolicy("full", denied_hosts=("evil.net",))
    assert isinstance(judge(policy, {"to": "https://evil.net/x"}), Deny)
    assert isinstance(judge(policy, {"to": "write to evil.net"}), Allow)


def test_a_schema_with_format_uri_declares_a_url():
    go = replace(FETCH, parameters={"properties": {"url": {"type": "string", "format": "uri"}}}, targets={})
    assert isinstance(judge(AgentPolicy("full", allowed_hosts=("a.net",)), {"url": "https://b.net"}, tool=go), Deny)


def test_a_redirect_can_be_judged_by_the_same_rules():
    policy = AgentPolicy(allowed_hosts=("good.net",))
    assert refuse_url(policy, "https://good.net/next") is None
    assert refuse_url(policy, "https://evil.net/next") is not None


@pytest.mark.parametrize(("path", "verdict"), [("a/b", Allow), ("a/../b", Allow), ("../b", Deny), ("/etc/x", Deny)])
def test_paths_stay_in_the_agents_folder(path, verdict):
    policy = AgentPolicy("full", workspace="/data/workspaces/a", auto_approve=("*",))
    assert type(judge(policy, {"path": path}, tool=STORE)) is verdict


def test_a_tool_that_a_person_might_approve_is_not_refused_outright():
    assert refuse_tool(spec(), AgentPolicy("supervised")) is None
    assert refuse_tool(spec(), AgentPolicy(denied=("mail(to=x)",))) is None
    refusal = refuse_tool(spec(), AgentPolicy("readonly"))
    assert refusal is not None
    assert refusal.reason == "The agent is read-only and the tool mail may change something."


@pytest.mark.parametrize("lists", [{"denied": ("m*",)}, {"allowed": ("echo", "x(y=*)")}, {"denied": ("b((",)}])
def test_a_tool_that_no_arguments_could_save_is_not_offered(lists):
    assert isinstance(refuse_tool(spec(), AgentPolicy("full", **lists)), Deny)


RANK = {Allow: 0, Ask: 1, Deny: 2}
LISTS = st.lists(st.sampled_from(["mail", "m*", "*", "mail(to=ann)", "mail(to=b*)", "echo"]), max_size=2).map(tuple)
POLICIES = st.builds(
    AgentPolicy,
    autonomy=st.sampled_from(["readonly", "supervised", "full"]),
    allowed=LISTS,
    denied=LISTS,
    always_ask=LISTS,
    auto_approve=LISTS,
    workspace=st.just("/w"),
)


@given(POLICIES, POLICIES, st.sampled_from(list(Risk)), st.sampled_from(["ann", "bob"]), st.sampled_from(list(Effect)))
def test_a_sub_agent_may_never_do_more_than_who_launched_it(parent, child, risk, to, effect):
    def rank(policy):
        return RANK[type(judge(policy, {"to": to}, risk=risk, tool=spec(effect)))]

    narrowed = narrow(parent, to=child)
    assert rank(narrowed) == max(rank(parent), rank(child))
    assert narrowed.workspace == parent.workspace


@given(POLICIES, st.sampled_from(list(Risk)), st.sampled_from(["ann", "bob"]))
def test_one_more_denial_never_allows_more(policy, risk, to):
    before = RANK[type(judge(policy, {"to": to}, risk=risk))]
    after = RANK[type(judge(replace(policy, denied=(*policy.denied, "mail(to=ann)")), {"to": to}, risk=risk))]
    assert after >= before


@pytest.mark.parametrize("of_parent", ["expert", "default"])
def test_a_permanent_grant_counts_for_its_agent_alone(of_parent):
    policy = narrow(AgentPolicy(agent_id=of_parent), to=AgentPolicy(agent_id="expert"))
    verdict = judge(policy, {"to": "ann"}, risk=Risk.HIGH, grants=("mail",))
    if of_parent == "expert":
        assert isinstance(verdict, Allow)
    else:
        assert isinstance(verdict, Ask) and not verdict.is_standing

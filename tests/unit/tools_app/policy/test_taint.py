"""Egress of calls, destinations that a tainted run may send data to, and hosts that people name."""

from dataclasses import replace

import pytest

from tools_app.builtin.calculator import Calculator
from tools_app.builtin.http_request import HttpRequest
from tools_app.builtin.python import Python
from tools_app.builtin.web_fetch import WebFetch
from tools_app.policy import taint, targets
from tools_app.policy.decide import Allow, Ask, Deny, Situation, decide
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy
from tools_app.policy.taint import Taint
from tools_app.types import Effect, Reads, Risk, ToolSpec

FETCH, REQUEST = WebFetch.spec, HttpRequest.spec
MCP = ToolSpec("mcp__wiki__edit", "Edits.", {"type": "object"}, Effect.READ, Risk.LOW, server="wiki")
SKILL = ToolSpec("skill__push", "Pushes.", {"type": "object"}, Effect.READ, Risk.LOW, reaches="https://push.test")
READ = Taint(("page:news.test",))
EVIL = {"url": "https://evil.test/?d=1"}


def verdict(spec=FETCH, arguments=EVIL, state=READ, *, risk=Risk.LOW, grants=(), run_grants=(), **policy):
    situation = Situation(taint=state, grants=grants, run_grants=run_grants)
    return decide(PolicyCall(spec, arguments), risk, AgentPolicy(**policy), "user:1", situation=situation)


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
@pytest.mark.parametrize(
    ("spec", "arguments", "place"),
    [
        (FETCH, EVIL, "evil.test"),
        (FETCH, {"url": "https://user@evil.test/"}, "https://user@evil.test/"),
        (REQUEST, EVIL | {"method": "POST", "body": "x"}, "evil.test"),
        (MCP, {"text": "x"}, "wiki (MCP server)"),
        (MCP, EVIL, "evil.test"),
        (MCP, {"url": "www.evil.test/d=1"}, "www.evil.test"),
        (SKILL, {"text": "x"}, "push.test"),
        (ToolSpec("unknown", "", {}, Effect.READ, Risk.LOW), {"n": 7}, "unknown (tool)"),
    ],
)
def test_data_that_would_leave_a_tainted_run_needs_approval(autonomy, spec, arguments, place):
    if autonomy == "readonly" and spec is REQUEST:
        pytest.skip("denied outright")
    asked = verdict(spec, arguments, autonomy=autonomy)
    assert isinstance(asked, Ask) and asked.rule == "taint" and asked.origins == READ.origins
    assert asked.reason == f"This chat contains news.test (page) from outside. The call would send data to {place}."


_GIVEN = {"type": "object", "properties": {"text": {"type": "string"}, "most": {"type": "integer", "default": 10}}}


def test_a_call_that_sends_nothing_is_not_egress():
    assert taint.find_egress(PolicyCall(Calculator.spec, {"expression": "1+1"})) is None


@pytest.mark.parametrize(
    ("spec", "arguments", "letters"),
    [
        (MCP, {}, 1),
        (SKILL, {}, 1),
        (SKILL, {"text": ""}, 2),
        (replace(MCP, parameters=_GIVEN), {"text": None, "most": 10}, 3),
        (ToolSpec("unknown", "", {}, Effect.READ, Risk.LOW), {}, 1),
        (FETCH, EVIL | {"offset": 20}, 1),
        (FETCH, {}, 1),
        (replace(MCP, reads=Reads.NOTHING), {}, 0),
        (replace(MCP, parameters=_GIVEN), {"most": 11}, 0),
        (REQUEST, EVIL | {"body": "x"}, 0),
    ],
)
def test_the_choice_of_a_call_carries_letters(spec, arguments, letters):
    assert taint.count_letters(PolicyCall(spec, arguments)) == letters


@pytest.mark.parametrize("letters", [taint.MAX_LETTERS - 1, taint.MAX_LETTERS])
def test_a_tool_of_an_unlisted_server_is_chosen_a_few_times(letters):
    state = replace(READ, letters=letters)
    chosen = verdict(MCP, {}, state)
    if letters < taint.MAX_LETTERS:
        assert chosen == Allow(taint.CHOSEN, "autonomy: supervised")
    else:
        assert isinstance(chosen, Ask)
    assert isinstance(verdict(MCP, {"text": ""}, state), Ask)
    assert isinstance(verdict(MCP, {}, state, egress_servers=("wiki",)), Allow)


def test_a_link_excuses_its_host_and_not_the_server_that_gets_it():
    state = replace(READ, links=frozenset(EVIL.values()), named=frozenset(EVIL.values()))
    asked = verdict(MCP, EVIL, state, allowed_hosts=("evil.test",))
    assert isinstance(asked, Ask) and asked.reason.endswith("would send data to wiki (MCP server).")
    assert isinstance(verdict(MCP, EVIL, replace(state, named=frozenset()), egress_servers=("wiki",)), Allow)


@pytest.mark.parametrize(
    "policy",
    [
        {"allowed_hosts": ("evil.test",)},
        {"allowed_hosts": ("*.test",)},
        {"allowed_hosts": ("evil.test:443",)},
        {"auto_approve": ("web_fetch(url=https://evil.test/*)",)},
        {"grants": ("web_fetch(url=https://evil.test/*)",)},
        {"run_grants": ("web_fetch",)},
        {"state": Taint(READ.origins, named=taint.named_urls(EVIL["url"]))},
        {"state": Taint(READ.origins, allowed=frozenset({"evil.test"}))},
    ],
)
def test_a_destination_that_somebody_has_named_is_allowed(policy):
    assert isinstance(verdict(**policy), Allow)


@pytest.mark.parametrize(
    "policy",
    [
        {"allowed_hosts": ("evil.test:8443", "evil.test:443"), "arguments": {"url": "https://evil.test:9/"}},
        {"auto_approve": ("*",)},
        {"auto_approve": ("web_fetch",)},
        {"auto_approve": ("web_fetch(url=https://*/*)",)},
        {"grants": ("web_fetch(url=*)",)},
        {
            "state": Taint(
                READ.origins, named=taint.named_urls("https://evil.test:8443/ evil.test https://evil.test/other")
            )
        },
    ],
)
def test_a_rule_that_names_no_destination_does_not_allow_it(policy):
    assert not isinstance(verdict(**policy), Allow)


def test_an_mcp_server_is_allowed_by_the_agents_own_list_alone():
    assert isinstance(verdict(MCP, {"text": "x"}, egress_servers=("wiki",)), Allow)
    assert isinstance(verdict(MCP, {"text": "x"}, allowed_hosts=("wiki",)), Ask)
    assert isinstance(verdict(MCP, EVIL | {"text": "x"}, egress_servers=("wiki",)), Ask)


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
def test_a_server_that_the_agent_may_use_gets_no_data_without_approval(autonomy):
    assert isinstance(verdict(MCP, {"text": "x"}, autonomy=autonomy, mcp_servers=("wiki",)), Ask)
    denied = verdict(MCP, {"text": "x"}, autonomy=autonomy, mcp_servers=(), egress_servers=("wiki",))
    assert isinstance(denied, Deny)


def test_a_sub_agent_needs_the_permission_of_its_parent_too():
    parent, child = AgentPolicy(), AgentPolicy(allowed_hosts=("evil.test",))
    within = AgentPolicy(**{**vars(child), "within": parent})
    call = PolicyCall(FETCH, EVIL)
    assert not taint.is_allowed(taint.find_egress(call), within)
    assert isinstance(decide(call, Risk.LOW, within, "user:1", situation=Situation(taint=READ)), Ask)


def test_an_address_without_a_scheme_is_a_place_beside_the_server_that_gets_it():
    address = {"url": "news.test/today"}
    asked = verdict(MCP, address, egress_servers=("wiki",))
    assert isinstance(asked, Ask) and "news.test" in asked.reason
    assert isinstance(verdict(MCP, address, egress_servers=("wiki",), allowed_hosts=("news.test",)), Allow)
    named = replace(READ, named=taint.named_urls("Look at news.test"))
    assert isinstance(verdict(MCP, {"url": "news.test"}, named, egress_servers=("wiki",)), Allow)
    assert isinstance(verdict(MCP, address, named, egress_servers=("wiki",)), Ask)


def test_links_that_the_run_has_read_may_be_followed_a_few_times():
    links = frozenset(EVIL.values())
    followed = verdict(state=Taint(READ.origins, links=links, letters=taint.MAX_LETTERS - 1))
    assert followed == Allow(taint.FOLLOWED, "autonomy: supervised")
    assert isinstance(verdict(state=Taint(READ.origins, links=links, letters=taint.MAX_LETTERS)), Ask)
    with_body = EVIL | {"body": "x"}
    assert isinstance(verdict(REQUEST, with_body, Taint(READ.origins, links=links), risk=Risk.LOW), Ask)


def test_python_code_may_reach_the_network_where_it_is_not_isolated(settings):
    call = {"code": "print(1)"}
    assert taint.find_egress(PolicyCall(Python().spec, call)) is None
    settings.KOMAND_PYTHON_UNISOLATED = True
    spec = Python().spec
    assert taint.find_egress(PolicyCall(spec, call)) and taint.origins_of(PolicyCall(spec, call)) == ("tool:python",)


def test_an_escalated_run_asks_for_egress_of_low_risk():
    situation = Situation(is_suspect=True)
    named = AgentPolicy(allowed_hosts=("evil.test",))
    assert isinstance(decide(PolicyCall(FETCH, EVIL), Risk.LOW, named, "user:1", situation=situation), Ask)
    harmless = PolicyCall(Calculator.spec, {"expression": "1"})
    assert isinstance(decide(harmless, Risk.LOW, named, "user:1", situation=situation), Allow)


@pytest.mark.parametrize(
    ("spec", "arguments", "origins"),
    [
        (FETCH, EVIL, ("page:evil.test",)),
        (MCP, {}, ("mcp:wiki",)),
        (SKILL, {}, ("page:push.test",)),
        (ToolSpec("unknown", "", {}), {}, ("tool:unknown",)),
        (Calculator.spec, {"expression": "1"}, ()),
    ],
)
def test_origins_of_results(spec, arguments, origins):
    assert taint.origins_of(PolicyCall(spec, arguments)) == origins


@pytest.mark.parametrize(
    "url",
    [
        "https://news.test/a?page=2",
        "http://news.test/a?page=2",
        "https://www.shop.test/",
        "https://shop.test/",
        "https://wiki.test/%41bc",
        "https://wiki.test/Abc",
    ],
)
def test_a_named_url_is_allowed(url):
    named = taint.named_urls("Read https://news.test/a?page=2, https://wiki.test/%41bc and shop.test")
    assert url in named
    assert isinstance(verdict(arguments={"url": url}, state=Taint(READ.origins, named=named)), Allow)
    body = verdict(REQUEST, {"url": url, "body": "x"}, Taint(READ.origins, named=named), autonomy="full")
    assert isinstance(body, Ask)


@pytest.mark.parametrize(
    "url",
    [
        "https://news.test/a",
        "https://news.test/a?page=2&d=x",
        "https://news.test/",
        "https://news.test///a?page=2",
        "https://news.test/%61?page=2",
        "https://shop.test/?d=x",
        "https://shop.test:8443/",
        "https://d.shop.test/",
    ],
)
def test_another_spelling_or_path_of_a_named_host_is_not(url):
    named = taint.named_urls("Read https://news.test/a?page=2 and shop.test")
    assert isinstance(verdict(arguments={"url": url}, state=Taint(READ.origins, named=named)), Ask)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("See https://Docs.Example.org/a?b=c.", {"docs.example.org"}),
        ("Look at example.org, please", {"example.org"}),
        ("(example.org)", {"example.org"}),
        ("http://localhost:8080/x", {"localhost:8080"}),
        ("Summarise invoice.zip and report.md", set()),
        ("Write to bob@example.org", set()),
        ("https://good.test@evil.test/", set()),
        ("path/example.org/x", set()),
        ("e.g. 3.14 and v1.2", set()),
    ],
)
def test_hosts_that_a_person_names(text, hosts):
    found = {targets.read_url(url).authority for url in taint.named_urls(text) if targets.read_url(url)}
    assert {host for host in found if not host.startswith("www.")} == hosts


def test_a_literal_link_is_a_whole_link():
    text = "[a](https://evil.test/abc) <https://evil.test/q?x=1>, https://evil.test/d.\nhttps://evil.test/(e)"
    found = set(taint.links_in(text))
    assert {"https://evil.test/abc", "https://evil.test/q?x=1", "https://evil.test/d", "https://evil.test/(e)"} <= found
    assert not {"https://evil.test/ab", "https://evil.test/", "https://evil.test/q", "https://evil.test"} & found


def test_many_origins_are_shortened():
    origins = ["page:a.test", "mcp:wiki", "file:out/a.txt", "unknown"]
    assert taint.described(origins) == "a.test (page), wiki (MCP server) and 2 more"
    reason = taint.reason([f"page:{'x' * 200}", f"page:{'y' * 200}"], taint.Destination("z" * 200))
    assert len(reason) <= 200

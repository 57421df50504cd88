"""Suggested patterns: narrow, and always matching the call itself."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tools_app.policy.test_patterns import OTHER, REQUEST, WRITE, request, text_call, write
from tools_app.builtin.http_request import HttpRequest
from tools_app.policy.patterns import PolicyCall, parse
from tools_app.policy.suggestions import propose
from tools_app.types import ToolSpec


@pytest.mark.parametrize(
    ("call", "run", "always"),
    [
        (text_call("hello"), "say", "say(text=hello)"),
        (text_call("2 * 3, or?"), "say", r"say(text=2 \* 3\, or\?)"),
        (request("https://a.example/x?y=1"), *["http_request(method=GET, url=https://a.example/*)"] * 2),
        (request("http://b.net:8080/x", method="POST"), *["http_request(method=POST, url=http://b.net:8080/*)"] * 2),
        (write("./out//a*.txt"), *[r"write_file(path=out/a\*.txt)"] * 2),
    ],
)
def test_the_patterns_are_the_narrowest_that_are_of_use(call, run, always):
    proposal = propose(call)
    assert (proposal.run, proposal.always) == (run, always)


@pytest.mark.parametrize(
    "call",
    [
        text_call("x" * 900),
        text_call(" padded "),
        text_call("two\nlines"),
        PolicyCall(OTHER, {"n": 5}),
        PolicyCall(OTHER, {"where": "x"}),
    ],
)
def test_what_cannot_be_spelled_out_goes_by_its_digest(call):
    assert propose(call).always == f"{call.spec.name}({call.digest})"


def test_a_target_that_cannot_be_parsed_is_not_made_a_pattern():
    proposal = propose(request("https://user@a.example/x", method="POST"))
    assert proposal.run == proposal.always
    assert proposal.always.startswith("http_request(#")


@pytest.mark.parametrize(
    ("address", "run"),
    [
        ("https://a.example/x", "open_page(url=https://a.example/*)"),
        ("www.a.example/x", "open_page(url=www.a.example/x)"),
    ],
)
def test_an_address_that_the_tool_does_not_declare_is_not_widened_to_every_address_for_the_run(address, run):
    spec = ToolSpec("open_page", "", {"type": "object", "properties": {"url": {"type": "string"}}})
    proposal = propose(PolicyCall(spec, {"url": address}))
    assert (proposal.run, proposal.always) == (run, f"open_page(url={address})")
    assert not parse(proposal.run).permits(PolicyCall(spec, {"url": "https://b.example/x"}))


def test_a_choice_that_is_left_open_is_not_allowed_with_the_others():
    rule = {"type": "object", "properties": {"url": {"format": "uri"}, "how": {"enum": ["read", "delete"]}}}
    spec = ToolSpec("reach", "", rule)
    proposal = propose(PolicyCall(spec, {"url": "https://a.example/"}))
    for pattern in (proposal.run, proposal.always):
        assert not parse(pattern).permits(PolicyCall(spec, {"url": "https://a.example/", "how": "delete"}))


def test_a_get_that_names_no_method_is_allowed_as_a_get_alone():
    spec = HttpRequest.spec
    pattern = parse(propose(PolicyCall(spec, {"url": "https://a.example/x"})).always)
    assert pattern.permits(PolicyCall(spec, {"url": "https://a.example/y", "method": "GET"}))
    assert not pattern.permits(PolicyCall(spec, {"url": "https://a.example/y", "method": "DELETE"}))


ARGUMENTS = st.fixed_dictionaries({"text": st.text(max_size=60).filter(lambda text: "\0" not in text)})
ANY_SPEC = ToolSpec(
    "say", "Says.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
)


@given(ARGUMENTS, ARGUMENTS)
def test_a_standing_permission_covers_this_call_and_no_other(first, second):
    pattern = parse(propose(PolicyCall(ANY_SPEC, first)).always)
    assert pattern.permits(PolicyCall(ANY_SPEC, first))
    assert pattern.permits(PolicyCall(ANY_SPEC, second)) is (first == second)


@given(st.sampled_from(["https://a.example/", "https://a.example/b?c", "https://b.example/x", "http://a.example/"]))
def test_a_permission_for_a_host_covers_that_host_alone(url):
    pattern = parse(propose(PolicyCall(REQUEST, {"url": "https://a.example/y"}, follow=os.path.normpath)).always)
    assert pattern.permits(PolicyCall(REQUEST, {"url": url})) is url.startswith("https://a.example/")
    assert not pattern.permits(PolicyCall(WRITE, {"path": "x"}))

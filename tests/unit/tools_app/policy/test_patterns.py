"""Patterns of calls: grammar, broad denials and strict permissions."""

import pytest

from tools_app.host_rules import PatternError, check_host
from tools_app.policy.patterns import PolicyCall, parse
from tools_app.types import TargetKind, ToolSpec

TEXTS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
REQUEST = ToolSpec(
    "http_request",
    "Asks.",
    {
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": {"type": "string"},
            "method": {"type": "string", "enum": ["GET", "POST"], "default": "GET"},
        },
    },
    targets={"url": TargetKind.URL},
)
WRITE = ToolSpec(
    "write_file",
    "Writes.",
    {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}, "text": {"type": "string"}}},
    targets={"path": TargetKind.PATH},
)
OTHER = ToolSpec("mcp__web__go", "Goes.", {"type": "object", "properties": {"where": {"type": "string"}, "n": {}}})


def text_call(text):
    return PolicyCall(ToolSpec("say", "Says.", TEXTS), {"text": text})


def request(url, **arguments):
    return PolicyCall(REQUEST, {"url": url, **arguments})


def write(path):
    return PolicyCall(WRITE, {"path": path, "text": "x"}, "/srv/files")


@pytest.mark.parametrize(
    ("pattern", "call", "permits"),
    [
        ("say", text_call("x"), True),
        ("s*", text_call("x"), True),
        ("*", text_call("x"), True),
        ("Say", text_call("x"), False),
        ("say(hello*)", text_call("hello world"), True),
        ("say(hello*)", text_call("Hello world"), False),
        ("say(text=hello*)", text_call("hello world"), True),
        ("say(txt=*)", text_call("hello"), False),
        ("say(a,b)", text_call("a,b"), True),
        (r"say(x\=1)", text_call("x=1"), True),
        ("say(*)", text_call("up/../down"), False),
        ("say(*)", text_call("up/%2e%2e/down"), False),
        ("http_request(method=GET, url=https://a.example/*)", request("https://a.example/x"), True),
        ("http_request(method=GET, url=https://a.example/*)", request("https://a.example/x", method="POST"), False),
        ("http_request(https://a.example/*)", request("https://a.example/x"), True),
        ("http_request(url=https://a.example/*)", request("http://a.example/x"), False),
        ("http_request(url=https://a.example/*)", request("https://a.example:8443/x"), False),
        ("http_request(url=https://a.example:8443/*)", request("https://a.example:8443/x"), True),
        ("http_request(url=https://a.example:*/*)", request("https://a.example:8443/x"), True),
        ("http_request(url=https://A.Example:443/*)", request("https://a.example/x"), True),
        ("http_request(url=https://a.example)", request("https://a.example/"), True),
        ("http_request(url=https://a.example)", request("https://a.example/x"), False),
        ("http_request(url=https://*.example/*)", request("https://a.example/x"), True),
        ("http_request(url=https://*.example/*)", request("https://evil.net/x.example/y"), False),
        ("http_request(url=https://a.example/open/*)", request("https://a.example/open/../shut"), False),
        ("http_request(url=https://a.example/open/*)", request("https://a.example/open/%2e%2e/shut"), False),
        ("http_request(url=https://a.example/*)", request("https://a.example@evil.net/x"), False),
        ("http_request(url=https://a.example/*)", request("https://a.example\\.evil.net/"), False),
        ("http_request(*)", request("https://user@a.example/"), False),
        ("write_file(path=out/*)", write("out/a.txt"), True),
        ("write_file(path=out/*)", write("./out//a.txt"), True),
        ("write_file(path=out/*)", write("out/../secret"), False),
        ("write_file(path=/srv/files/out/*)", write("out/a.txt"), True),
        ("write_file(*)", write("../x"), False),
        ("mcp__web__go(where=https://a.example/*)", PolicyCall(OTHER, {"where": "https://a.example/../x"}), True),
        ("mcp__web__go(where=https://a.example/*)", PolicyCall(OTHER, {"where": "https://b@a.example/x"}), False),
        ("mcp__web__go(where=x*)", PolicyCall(OTHER, {"where": ["x1", "x2"]}), True),
        ("mcp__web__go(where=x*)", PolicyCall(OTHER, {"where": ["x1", "y"]}), False),
        ("mcp__web__go(n=5)", PolicyCall(OTHER, {"n": 5}), True),
        ('mcp__web__go(*"n":true*)', PolicyCall(OTHER, {"n": True}), True),
    ],
)
def test_to_permit_every_spelling_has_to_fit(pattern, call, permits):
    assert parse(pattern).permits(call) is permits


@pytest.mark.parametrize(
    ("pattern", "call"),
    [
        ("SAY", text_call("x")),
        ("say(rm -rf*)", text_call("RM   -rf /")),
        ("say(rm -rf*)", text_call("r\u200bm -rf /")),
        ("say(*secret*)", text_call("s\uff45cret")),
        ("say(*/etc/passwd*)", text_call("/etc/./passwd")),
        ("say(*/etc/passwd*)", text_call("/etc/x/../passwd")),
        ("say(*/etc/passwd*)", text_call("%2fetc%252fpasswd")),
        ("say(*/etc/passwd*)", text_call("\\etc\\passwd")),
        ("http_request(url=https://evil.net/*)", request("https://a:b@EVIL.net./x")),
        ("http_request(url=https://evil.net/*)", request(" https://evil.net/x")),
        ("http_request(url=https://evil.net/*)", request("https://evil.net:8443/x")),
        ("http_request(url=https://evil.net)", request("https://evil.net/anything")),
        ("http_request(url=http://127.0.0.1/*)", request("http://2130706433/")),
        ("http_request(url=https://a.example/admin*)", request("https://a.example/x/..//admin/y")),
        ("http_request(url=https://a.example/admin*)", request("https://a.example/%2561dmin")),
        ("http_request(*evil.net*)", request("https://evil\u3002net/")),
        ("write_file(path=secret/*)", write("out/../secret/x")),
        ("write_file(path=secret/*)", write("SECRET/x")),
        ("mcp__web__go(where=https://evil.net/*)", PolicyCall(OTHER, {"where": ["fine", "https://evil.net/x"]})),
        ("mcp__*(*evil.net*)", PolicyCall(OTHER, {"n": {"deep": ["https://evil.net"]}})),
    ],
)
def test_to_refuse_any_spelling_will_do(pattern, call):
    assert parse(pattern).refuses(call)


@pytest.mark.parametrize(
    ("pattern", "call"),
    [
        ("http_request(url=https://evil.net/*)", request("https://good.net/?see=https://evil.net/")),
        ("say(text=rm*)", text_call("alarm")),
        ("say(text=*, more=*)", text_call("x")),
        ("write_file(path=secret/*)", write("out/secret.txt")),
    ],
)
def test_refusing_has_its_bounds(pattern, call):
    assert not parse(pattern).refuses(call)


def test_a_digest_stands_for_the_very_arguments():
    call = text_call("x" * 5000)
    pattern = parse(f"say({call.digest})")
    assert pattern.permits(call)
    assert not pattern.permits(text_call("x" * 4999))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "say(",
        "say()",
        "say(x",
        "say)x(",
        "(x)",
        "\u0441ay",
        "say\0",
        "x" * 121,
        "say(#12)",
        f"say({'x' * 1000})",
        "a;b",
    ],
)
def test_an_invalid_pattern_is_explained(text):
    with pytest.raises(PatternError):
        parse(text)


@pytest.mark.parametrize(
    "text", ["https://example.com", "example.com/x", "exa mple", "", "a,b", "user@host", "host:port"]
)
def test_an_invalid_host_is_explained(text):
    with pytest.raises(PatternError):
        check_host(text)


@pytest.mark.parametrize("text", ["example.com", "*.Example.com", "example.com:8443", "localhost:*", "[::1]", "10.0.*"])
def test_hosts_are_kept_in_lower_case(text):
    assert check_host(text) == text.lower()

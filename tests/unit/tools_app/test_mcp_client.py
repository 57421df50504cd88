"""The pure parts of the MCP client: listings, names, results, token buckets."""

import base64

import pytest

from tools_app.mcp_client.errors import ServerFault, reason_of
from tools_app.mcp_client.listed_tool import UnusableTool, public_names, read_tool
from tools_app.mcp_client.results import pictures_of, value_of
from tools_app.mcp_client.token_bucket import Bucket
from tools_app.types import ToolError

OBJECT = {"type": "object"}


def tool(**fields):
    return read_tool({"name": "act", "description": "Acts.", "inputSchema": OBJECT, **fields})


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Acts, and tells a stranger."},
        {"inputSchema": {"type": "object", "properties": {"x": {"type": "string", "pattern": "a"}}}},
        {"outputSchema": OBJECT},
        {"title": "Another"},
    ],
)
def test_the_digest_is_of_everything_that_is_relied_on(change):
    assert tool(**change).digest != tool().digest


def test_the_digest_is_not_of_what_the_server_merely_claims():
    assert tool(annotations={"readOnlyHint": True}).digest == tool().digest


def test_of_its_claims_those_are_kept_that_people_are_shown():
    claims = {"readOnlyHint": True, "title": "x", "idempotentHint": "yes", "mine": "\0" * 100_000}
    assert tool(annotations=claims).hints == {"readOnlyHint": True}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"inputSchema": None}, "input schema"),
        ({"inputSchema": {"type": "string"}}, "input schema"),
        ({"inputSchema": {**OBJECT, "properties": {"x": {"$ref": "http://inside/"}}}}, "external reference"),
        ({"inputSchema": {**OBJECT, "$dynamicRef": 7}}, "external reference"),
        ({"description": "x" * 70_000}, "longer"),
        ({"inputSchema": {**OBJECT, "title": "a\0b"}}, "NUL"),
    ],
)
def test_a_tool_that_cannot_be_offered_has_a_reason(fields, reason):
    with pytest.raises(UnusableTool, match=reason):
        tool(**fields)


def test_a_schema_that_is_nested_without_end_is_refused():
    schema: dict = {"type": "object"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(UnusableTool, match="deeply"):
        tool(inputSchema=schema)


def test_patterns_are_left_to_the_server_but_properties_of_that_name_stay():
    properties = {"pattern": {"type": "string", "pattern": "(a+)+$"}, "timeout_seconds": {"type": "integer"}}
    given = {"type": "object", "properties": properties, "required": ["pattern", "timeout_seconds"]}
    fit = tool(inputSchema=given).parameters
    assert fit == {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}


def test_public_names_are_short_plain_and_each_its_own():
    names = public_names("srv", ["a_b", "a.b", "a b", "x" * 100, "y" * 100])
    assert names["a_b"] == "mcp__srv__a_b"
    assert len(set(names.values())) == 5
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names.values())
    assert public_names("srv", reversed(list(names))) == names


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\n\nb"),
        ({"content": [{"type": "text", "text": "7"}], "structuredContent": {"n": 7}}, {"n": 7}),
        ({"content": []}, ""),
        ({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "words"}}]}, "file:///a\nwords"),
        (
            {"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]},
            {"attachments": [{"type": "image", "mime_type": "image/png", "bytes": 3}]},
        ),
        (
            {"content": [{"type": "text", "text": "see"}, {"type": "resource_link", "uri": "u:1", "name": "n"}]},
            {"text": "see", "attachments": [{"type": "resource_link", "uri": "u:1", "name": "n"}]},
        ),
    ],
)
def test_what_a_result_becomes_for_the_model(result, value):
    assert value_of(result) == value


def test_the_pictures_of_a_result_are_known_by_their_bytes():
    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    png, jpeg = b"\x89PNG\r\n\x1a\n1", b"\xff\xd8\xff1"
    content = [
        {"type": "text", "text": encoded(png)},
        {"type": "image", "data": encoded(png), "mimeType": "image/gif"},
        {"type": "image", "data": encoded(b"<svg>"), "mimeType": "image/png"},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "audio", "data": encoded(b"RIFF"), "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "u:1", "blob": encoded(jpeg)}},
        {"type": "resource", "resource": {"uri": "u:2", "text": "words"}},
        {"type": "resource_link", "uri": "u:3", "name": "n"},
    ]
    assert [picture.data for picture in pictures_of({"content": content})] == [png, jpeg]
    assert pictures_of({"content": []}) == pictures_of({}) == []


def test_an_error_has_the_servers_own_text():
    with pytest.raises(ToolError, match="no such city"):
        value_of({"isError": True, "content": [{"type": "text", "text": "no such city"}]})
    with pytest.raises(ToolError, match="without an error message"):
        value_of({"isError": True, "content": []})


def test_a_bucket_holds_so_much_and_refills():
    now = [0.0]
    bucket = Bucket(10, 2, clock=lambda: now[0])
    assert bucket.take(10) and not bucket.take(1)
    now[0] = 1
    assert bucket.take(2) and not bucket.take(1)
    now[0] = 100
    assert bucket.take(10) and not bucket.take(1)


def test_the_reason_is_the_first_real_error_of_a_group_in_one_line():
    group = ExceptionGroup("many", [ExceptionGroup("more", [OSError("no\nroute")]), ValueError("x")])
    assert reason_of(group) == "no route"
    assert reason_of(KeyError()) == "KeyError"
    assert str(ServerFault("it is away").as_tool_error("srv")) == "The MCP server srv does not work: it is away."

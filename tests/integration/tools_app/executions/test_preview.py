"""A request for approval of a call: the targets first, and a diff of what the tool's schema has."""

from contextlib import nullcontext
from dataclasses import replace
from uuid import uuid4

import pytest
from django.utils import timezone

from tests.unit.sessions_app.approvals.test_prompt_text import APPROVAL
from tools_app import catalogue
from tools_app.executions import preview
from tools_app.models import ToolExecution
from tools_app.schema import ArgumentsError, check_call
from tools_app.storage import artifact_paths, artifacts
from tools_app.types import Tool, ToolSpec

ARGUMENTS = {"amount": 9999, "before": "teh", "after": "the", "to": "EVIL", "site": ["https://аpple.com/x?y=1"]}


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch):
    """Return a function that declares the tool of the request."""

    def set_up(*names: str, **spec: object) -> None:
        properties = {name: {} for name in names} | {"site": {"type": "array", "items": {"format": "uri"}}}
        parameters = {"type": "object", "properties": properties}

        class Pay(Tool):
            def run(self, arguments, context):
                return ""

        tool = Pay()
        tool.spec = ToolSpec(name="launch", description="", parameters=parameters, **spec)  # type: ignore[misc, arg-type]
        monkeypatch.setattr(catalogue, "find_tool", lambda *_: tool)

    return set_up


def test_targets_and_what_is_sent_come_first(declare) -> None:
    declare("amount", "to", "before", "after", sends=("to",))
    shown = preview.targets_first(replace(APPROVAL, arguments=ARGUMENTS))
    assert [*shown.arguments] == ["site", "to", "amount", "before", "after"] and shown.targets == ("site", "to")
    assert shown.places == ("xn--pple-43d.com (аpple.com)",) and shown.arguments == ARGUMENTS


def test_an_address_without_a_scheme_is_a_place_though_the_tool_does_not_declare_it(declare) -> None:
    declare("note", "link")
    shown = preview.targets_first(replace(APPROVAL, arguments={"note": "hi", "link": "www.аpple.com/x"}))
    assert [*shown.arguments] == ["link", "note"] and shown.targets == ("link",)
    assert shown.places == ("www.xn--pple-43d.com (www.аpple.com)",)


@pytest.mark.parametrize(
    ("schema", "is_taken"),
    [
        ({"properties": {"to": {}}}, False),
        ({"allOf": [{"properties": {"to": {}}}]}, False),
        ({"allOf": [{"properties": {"to": {}, "before": {}}}]}, True),
        ({"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"to": {}, "before": {}}}}}, True),
        ({"properties": {"to": {}}, "additionalProperties": True}, True),
        ({"properties": {"to": {}}, "additionalProperties": {"type": "string"}}, True),
        ({"properties": {}}, False),
        ({}, True),
    ],
)
def test_a_tool_of_a_server_takes_no_argument_that_its_schema_does_not_name(declare, schema, is_taken) -> None:
    declare()
    tool = catalogue.find_tool("launch", "default")
    assert tool is not None
    tool.spec = replace(tool.spec, parameters={"type": "object", **schema}, server="bank")
    with nullcontext() if is_taken else pytest.raises(ArgumentsError, match="before"):
        check_call(tool, {"to": "x", "before": "teh"})


def test_a_diff_is_made_of_arguments_that_the_tool_has(declare) -> None:
    declare("amount", "to")
    assert preview.find_change(replace(APPROVAL, arguments=ARGUMENTS)) is None
    declare("before", "after")
    assert preview.find_change(replace(APPROVAL, arguments=ARGUMENTS)) is not None


@pytest.mark.django_db
def test_the_change_of_a_child_run_is_made_to_its_own_file(settings, tmp_path) -> None:
    settings.KOMAND_DATA_DIR = tmp_path
    session, run, child = uuid4(), uuid4(), uuid4()
    writer = artifacts.Writer(session, run, "default")
    artifacts.write_artifact(writer, "files/r.md", b"parent")
    artifacts.write_artifact(writer, artifact_paths.of_child("files/r.md", child), b"child")
    fields = {"session_id": session, "step": 0, "call_index": 0, "timeout_seconds": 1, "created_at": timezone.now()}
    for run_id, parent_id in ((run, None), (child, run)):
        ToolExecution.objects.create(run_id=run_id, parent_run_id=parent_id, **fields)
    arguments = {"path": "files/r.md", "content": "new"}
    found = [
        preview.find_change(
            replace(APPROVAL, tool="write_artifact", arguments=arguments, run_id=run_id, session_id=session)
        )
        for run_id in (run, child)
    ]
    assert [change.before for change in found if change] == ["parent", "child"]

"""Stored messages, ids and documents of the Threads API."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings

from audit_app.kernel.errors import InvalidInput
from sessions_app.management.commands.describe_thread_events import text
from sessions_app.surfaces.threads.direct_answers import usable_schema
from sessions_app.surfaces.threads.foreign_ids import TENANT, thread_id_of, user_id_of, user_uuid, workflow_id
from sessions_app.surfaces.threads.message_parts import StoredStep, parts_of, steps_of, text_of
from sessions_app.surfaces.threads.message_schemas import problem_of
from tools_app.types import ExecutionStatus, ExecutionView

RUN, CALL, NOW = UUID(int=1), UUID(int=3), datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def execution(status: ExecutionStatus) -> ExecutionView:
    return ExecutionView(
        CALL,
        RUN,
        UUID(int=2),
        "default",
        0,
        0,
        "call_1",
        "echo",
        {"text": "x"},
        status,
        '{"text": "x"}',
        "why",
        60,
        NOW,
        NOW,
        NOW,
        0.5,
    )


def test_the_real_client_reads_the_parts_of_every_outcome() -> None:
    """One test for all of them: the import of the client takes seconds in each worker."""
    import ksapi  # noqa: PLC0415 - see above

    for status in ExecutionStatus:
        steps = [
            StoredStep("Let me see.", NOW, NOW, "Hm.", (), (execution(status),), ((CALL, "Which?"),)),
            StoredStep("x", NOW, NOW),
        ]
        parts = parts_of(RUN, steps)
        read = ksapi.ThreadMessageDetails.from_dict({"parts": parts, "steps": steps_of(parts)})
        assert read is not None and read.parts is not None and read.steps is not None, status
        assert [part["kind"] for part in parts] == ["reasoning", "text", "tool", "text", "text"], status
        assert [part["seq"] for part in parts] == list(range(5)), status
        assert (len(read.parts), len(read.steps)) == (5, 2), status
        assert text_of(parts) == "Let me see.\n\nWhich?\n\nx", status
        assert problem_of({}, {"parts": parts, "steps": steps_of(parts)}) == "", status


@pytest.mark.parametrize(
    "details",
    [
        {"parts": [{"id": "1", "seq": 0, "start_time": "2026-03-01T09:30:00Z", "text": "no kind"}]},
        {"parts": [{"id": "1", "seq": 0, "start_time": "never", "kind": "text", "text": "x"}]},
        {"parts": [{"id": "1", "seq": 0, "start_time": "2026-03-01T09:30:00Z", "kind": "subagent"}]},
        {"steps": [{"id": "1", "name": "x", "kind": "subagent", "start_time": "2026-03-01T09:30:00Z"}]},
        {"usage": {"input_tokens": -1, "output_tokens": 0}},
        {"unknown": 1},
        7,
    ],
)
def test_details_that_clients_cannot_read_are_refused(details: object) -> None:
    assert problem_of({}, details)


def test_the_chunk_id_of_a_citation_must_be_a_uuid() -> None:
    cited = {"chunk_id": "not-a-uuid", "quote": "x", "start_char": 0, "length": 1}
    assert "chunk_id" in problem_of({"citations": [cited]}, None)
    assert not problem_of({"citations": [{**cited, "chunk_id": str(CALL)}]}, None)


def test_foreign_ids_can_be_converted_back() -> None:
    assert user_id_of(user_uuid(7)) == 7 and user_uuid(7).version == 8
    assert user_id_of(TENANT) is None and user_id_of(RUN) is None
    assert thread_id_of(workflow_id(RUN)) == str(RUN) and thread_id_of("other") == ""


@pytest.mark.parametrize("schema", [7, {"type": 7}, {"type": "array"}, [], {"$ref": "http://elsewhere/x"}])
def test_an_unusable_schema_is_refused(schema: object) -> None:
    with pytest.raises(InvalidInput):
        usable_schema(schema)


def test_the_documented_schemas_are_those_of_the_code() -> None:
    assert Path(settings.BASE_DIR, "docs", "threads-events.json").read_text() == text()

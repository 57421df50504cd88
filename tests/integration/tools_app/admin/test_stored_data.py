"""Stored data of tools in the admin: memories, files, questions, and results withheld by the guard."""

from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from audit_app.models import AuditEntry
from tools_app.executions.user_input import request_input
from tools_app.models import Memory, ToolExecution
from tools_app.storage import artifacts
from tools_app.types.questions import Question, plain_options

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def execution() -> ToolExecution:
    return ToolExecution.objects.create(
        run_id=uuid4(),
        session_id=uuid4(),
        agent_id="default",
        actor="user:1",
        step=0,
        call_index=0,
        call_id="c",
        tool="web_fetch",
        effect="read",
        risk="low",
        timeout_seconds=10,
        on_done="d",
        on_done_queue="q",
        created_at=timezone.now(),
        output="{}",
        withheld=HOSTILE,
        suspicion=90,
        status="Completed",
    )


def page(client: Any, model: str, pk: Any = None) -> str:
    path = f"/admin/tools_app/{model}/" + (f"{pk}/change/" if pk else "")
    response = client.get(path)
    assert response.status_code == 200
    text = response.content.decode()
    assert "<script>alert(1)" not in text
    return text


def test_memories_are_read_and_deleted_on_record(admin_client: Any) -> None:
    now = timezone.now()
    memory = Memory.objects.create(
        agent_id="default",
        actor="user:7",
        key=HOSTILE,
        text="likes blue",
        run_id=uuid4(),
        created_at=now,
        updated_at=now,
    )
    assert "likes blue" in page(admin_client, "memory")
    assert "user:7" in page(admin_client, "memory", memory.pk)
    admin_client.post(f"/admin/tools_app/memory/{memory.pk}/delete/", {"post": "yes"})
    assert not Memory.objects.exists()
    assert AuditEntry.objects.filter(action="MemoryDeleted").count() == 1


def test_files_are_listed(admin_client: Any, settings: Any, tmp_path: Any) -> None:
    settings.DATA_DIR = tmp_path
    written = artifacts.write_artifact(artifacts.Writer(uuid4(), uuid4(), "default"), "out/a.txt", b"hello")
    assert "out/a.txt" in page(admin_client, "artifact")
    assert written.sha256 in page(admin_client, "artifact", written.id)


def test_questions_are_listed(admin_client: Any, execution: ToolExecution) -> None:
    question = request_input(execution, [Question(f"Which? {HOSTILE}", plain_options(("a", "b")))])
    assert "Which?" in page(admin_client, "inputrequest")
    assert "a · b" in page(admin_client, "inputrequest", question.pk)


def test_what_was_kept_from_the_model_is_shown_to_operators(admin_client: Any, execution: ToolExecution) -> None:
    assert "alert(1)" in page(admin_client, "toolexecution", execution.pk)

"""Texts of users, models and tools in the admin: escaped, and without control characters that reorder a line."""

import pytest
from django.utils import timezone

from agents_app.models import Agent
from audit_app.models import AuditEntry, Event
from sessions_app.models import ApiKey, Session, Turn
from tools_app.models import (
    Approval,
    Artifact,
    Grant,
    InputRequest,
    McpServer,
    McpTool,
    Memory,
    Skill,
    SkillVersion,
    ToolExecution,
)

pytestmark = pytest.mark.one_database

SCRIPT = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}"
BIDI = "\u202egnp.exe\u200b"
TEXT = SCRIPT + BIDI


@pytest.fixture
def poisoned(make_run, agent, operator):
    """Store an object of each kind with hostile text, and return the addresses of all pages."""
    run = make_run("failed", text=TEXT, error_code="x", error_message=TEXT, answer=TEXT)
    run.session_key, run.actor, run.request_id = TEXT, TEXT, "r"
    run.save()
    call = {"id": TEXT, "name": TEXT, "arguments": TEXT}
    run.steps.update(text=TEXT, reasoning=TEXT, model=TEXT, finish_reason="x", tool_calls=[call, call])
    ToolExecution.objects.update(
        tool=TEXT[:120],
        arguments={TEXT: TEXT},
        output=TEXT,
        error=TEXT,
        call_id=TEXT,
        decision=TEXT,
        agent_id=TEXT[:120],
    )
    Session.objects.update(
        key=TEXT, title=TEXT, sender_name=TEXT, sender_id=TEXT, channel=TEXT[:40], account_id=TEXT[:120]
    )
    session = Session.objects.get()
    Turn.objects.create(
        session=session,
        run=run,
        ordinal=0,
        part=1,
        role="assistant",
        content=TEXT,
        html=SCRIPT,
        tool_calls=[call],
        error_message=TEXT,
        error_code=TEXT[:60],
        state="error",
        created_at=timezone.now(),
    )
    Turn.objects.create(
        session=session, ordinal=0, part=2, role="tool", content=TEXT, tool_call_ids=[TEXT], created_at=timezone.now()
    )
    Agent.objects.filter(pk=agent.pk).update(name=TEXT, description=TEXT, model_id=TEXT)
    ApiKey.objects.create(user=operator, name=TEXT[:120], prefix="p", digest="d")
    entry = AuditEntry.objects.create(
        action=SCRIPT[:64],
        actor=TEXT,
        agent_id=TEXT[:120],
        session_id=session.pk,
        session_key=TEXT,
        request_id=TEXT[:128],
        at=timezone.now(),
        details={TEXT: [TEXT]},
    )
    approval = Approval.objects.create(
        execution=ToolExecution.objects.get(),
        run_id=run.pk,
        reason=TEXT,
        note=TEXT,
        decided_by=TEXT,
        digest="d",
        run_pattern=TEXT,
        pattern=TEXT,
        status="denied",
        created_at=timezone.now(),
        expires_at=timezone.now(),
        decided_at=timezone.now(),
    )
    Event.objects.update(type=TEXT[:64], actor=TEXT, payload={TEXT: TEXT})
    objects = [
        run,
        session,
        entry,
        approval,
        ToolExecution.objects.get(),
        Event.objects.get(),
        ApiKey.objects.get(),
        agent,
        *poisoned_tools(run),
    ]
    lists = [f"/admin/{row._meta.app_label}/{row._meta.model_name}/" for row in objects]
    return ["/admin/", *lists, *(f"{address}{row.pk}/change/" for address, row in zip(lists, objects, strict=True))]


def poisoned_tools(run):
    """Store hostile texts of tools, their servers and their publishers."""
    now, names = timezone.now(), {"agent_id": TEXT[:120], "run_id": run.pk}
    server = McpServer.objects.create(name="files", last_error=TEXT, greeting={"name": TEXT, "version": TEXT})
    McpTool.objects.create(
        server=server,
        name=TEXT[:128],
        title=TEXT,
        description=TEXT,
        parameters={TEXT: TEXT},
        hints={TEXT: TEXT},
        digest="d",
    )
    data = {
        "skillId": "evil",
        "name": TEXT,
        "version": "1.0.0",
        "publisherId": "acme",
        "description": TEXT,
        "requiredPermissions": [],
        "instruction": {"body": TEXT},
    }
    skill = Skill.objects.create(
        skill_id="evil", publisher_id="acme", name=TEXT, description=TEXT, latest_version="1.0.0", category=TEXT[:60]
    )
    SkillVersion.objects.create(
        skill=skill, version="1.0.0", kind="instruction", manifest=data, digest="d", is_signed=False, registered_by=TEXT
    )
    return [
        Memory.objects.create(actor=TEXT, key=TEXT, text=TEXT, created_at=now, updated_at=now, **names),
        Artifact.objects.create(
            session_id=run.conversation_id,
            path=TEXT,
            folded_path=TEXT,
            media_type=TEXT[:120],
            size_bytes=1,
            sha256="s",
            blob=run.pk,
            created_at=now,
            updated_at=now,
            **names,
        ),
        Grant.objects.create(pattern=TEXT, granted_by=TEXT, created_at=now, agent_id=TEXT[:120], run_id=None),
        InputRequest.objects.create(
            execution=ToolExecution.objects.get(),
            run_id=run.pk,
            session_id=run.conversation_id,
            question=TEXT,
            options=[TEXT],
            created_at=now,
            expires_at=now,
            answered_by=TEXT,
        ),
        server,
        skill,
    ]


def test_hostile_text_is_shown_as_text_on_every_page(pages, poisoned):
    for address in poisoned:
        response = pages.get(address)
        html = response.content.decode()
        assert response.status_code == 200, address
        assert "<script>alert" not in html and "<img src=x" not in html, address


def test_nothing_invisible_gets_onto_a_page_that_shows_what_happened(pages, poisoned):
    for address in poisoned:
        if "/agents_app/agent/" in address or "/apikey/" in address:
            continue  # forms, in which operators read back what operators wrote
        html = pages.get(address).content.decode()
        assert "\u202e" not in html and "\u200b" not in html, address


def test_admin_pages_carry_no_inline_script(pages, poisoned):
    for address in poisoned:
        html = pages.get(address).content.decode()
        for tag in html.split("<script")[1:]:
            attributes = tag.partition(">")[0]
            assert "src=" in attributes or 'type="application/json"' in attributes, (address, attributes)
        assert "onclick=" not in html

"""The statements of tools_app that are compiled once, each with who waits for it."""

from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from audit_app.kernel.compiled_queries import CompiledObjects, CompiledQuery
from tools_app.models import (
    IS_OPEN,
    Approval,
    Control,
    Grant,
    InputRequest,
    McpServer,
    Memory,
    SkillInstall,
    ToolExecution,
)
from tools_app.types import ApprovalStatus, Decision
from tools_app.types.questions import InputStatus

_PENDING_APPROVALS = Approval.objects.filter(status=ApprovalStatus.PENDING)
_PENDING_INPUTS = InputRequest.objects.filter(status=InputStatus.PENDING)
_AT_ONCE = 100  # of one pass of the sweeper
CALLS_SEARCHED = 200  # for a link
_CALL = ("tool", "agent_id", "arguments")


def reading_calls(session_id: Any) -> QuerySet[ToolExecution]:
    """Return the executions of the session that may have read something from outside, the newest first."""
    return ToolExecution.objects.filter(~Q(origins=""), session_id=session_id, attempts__gt=0).order_by("-id")


# Every message that is received: does it answer a question?
FIND_OPEN_QUESTIONS = CompiledQuery(
    lambda session_id: (
        InputRequest.objects.filter(session_id=session_id, status=InputStatus.PENDING, expires_at__gt=Now())
        .order_by("id")
        .values_list("pk")
    )
)
# Every request that waits for its run.
LIST_EXECUTIONS = CompiledObjects(
    lambda run_id: ToolExecution.objects.filter(run_id=run_id, batch_id__isnull=True).order_by("step", "call_index")
)
# Every end of a tool call: has its run others?
FIND_OPEN_EXECUTION = CompiledQuery(
    lambda run_id: ToolExecution.objects.filter(IS_OPEN, run_id=run_id).order_by().values_list("pk")[:1]
)
# Every step of a run, and every tool call.
LIST_STOPPED_SCOPES = CompiledQuery(lambda: Control.objects.filter(is_stopped=True).values_list("scope", "reason"))
# Every look-up of tools: have the settings of a server or its tools changed, has the agent any skill?
LIST_SERVER_VERSIONS = CompiledQuery(
    lambda: (
        McpServer.objects.filter(is_enabled=True).order_by("id").values_list("id", "settings_version", "tools_version")
    )
)
FIND_ANY_SKILL = CompiledQuery(
    lambda agent_id: SkillInstall.objects.filter(agent_id=agent_id).order_by().values_list("pk")[:1]
)
# Every claim of a new run: is there anything to recall?
FIND_ANY_MEMORY = CompiledQuery(
    lambda agent_id, actor: Memory.objects.filter(agent_id=agent_id, actor=actor).order_by().values_list("pk")[:1]
)
# Every tool call that sends something to a place that the agent's rules do not name: what has the session read?
LIST_ORIGINS = CompiledQuery(
    lambda session_id: (
        ToolExecution.objects.filter(~Q(origins=""), session_id=session_id, attempts__gt=0)
        .order_by("id")
        .values_list("origins", "pk")
    )
)
# Those of a session that has read something.
LIST_READING_CALLS = CompiledQuery(lambda session_id: reading_calls(session_id).values_list(*_CALL)[:CALLS_SEARCHED])
LIST_CALLS_ALLOWED_FOR_RUN = CompiledQuery(
    lambda run_id: (
        ToolExecution.objects.filter(run_id=run_id, approval__decision=Decision.ALLOW_RUN.value)
        .order_by()
        .values_list(*_CALL)
    )
)
# Every tool call that needs an approval.
_VALID_GRANTS = Grant.objects.filter(revoked_at=None).order_by()
LIST_STANDING_PATTERNS = CompiledQuery(
    lambda agent_id: _VALID_GRANTS.filter(agent_id=agent_id, run_id=None).values_list("pattern")
)
LIST_RUN_PATTERNS = CompiledQuery(lambda run_id: _VALID_GRANTS.filter(run_id=run_id).values_list("pattern"))

# The sweeper of each process, each second. The executions are read with the database's time, if there are any.
FIND_RUNNING = CompiledQuery(lambda: ToolExecution.objects.filter(owner__isnull=False).order_by().values_list("pk")[:1])
FIND_LATE_NUDGE = CompiledQuery(
    lambda: ToolExecution.objects.filter(renudge_at__lte=Now()).order_by().values_list("pk")[:1]
)
LIST_EXPIRED_APPROVALS = CompiledObjects(
    lambda: (
        _PENDING_APPROVALS.select_related("execution").filter(expires_at__lte=Now()).order_by("expires_at")[:_AT_ONCE]
    )
)
LIST_EXPIRED_INPUTS = CompiledObjects(
    lambda: _PENDING_INPUTS.select_related("execution").filter(expires_at__lte=Now()).order_by("expires_at")[:_AT_ONCE]
)
FIND_PENDING_APPROVAL = CompiledQuery(lambda: _PENDING_APPROVALS.order_by().values_list("pk")[:1])
FIND_OPEN_QUESTION = CompiledQuery(
    lambda: _PENDING_INPUTS.filter(expires_at__gt=Now()).order_by().values_list("pk")[:1]
)

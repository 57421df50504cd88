"""What this surface shows of each object: camelCase dictionaries. Reads nothing that is not loaded already."""

from typing import Any

from django.contrib.auth.models import User

from agents_app.models import Agent
from agents_app.types import RunTranscript
from audit_app.kernel import redact
from audit_app.models import AuditEntry
from sessions_app.models import ApiKey, Session, Turn
from sessions_app.surfaces.komand.timestamps import iso, time_span
from tools_app.types import ApprovalView, ExecutionView

_AGENT_FIELDS = {
    "agentId": "agent_id",
    "name": "name",
    "description": "description",
    "systemPrompt": "system_prompt",
    "modelId": "model_id",
    "maxContextTokens": "max_context_tokens",
    "enabledSkillIds": "enabled_skill_ids",
    "allowedChannels": "allowed_channels",
    "enabledTools": "enabled_tools",
    "autonomy": "autonomy",
    "busyPolicy": "busy_policy",
    "queueLimit": "queue_limit",
    "maxToolRounds": "max_tool_rounds",
    "maxActiveSeconds": "max_active_seconds",
    "maxCallSeconds": "max_call_seconds",
    "maxIdleSeconds": "max_idle_seconds",
    "maxTries": "max_tries",
}


def user(person: User) -> dict[str, Any]:
    name = person.get_full_name() or person.username
    words = name.split()
    initials = f"{words[0][0]}{words[-1][0]}" if len(words) > 1 else name[:2]
    return {"id": str(person.pk), "name": name, "email": person.email, "initials": initials.upper()}


def session(row: Session) -> dict[str, Any]:
    """row: loaded with its agent."""
    return {
        "sessionId": row.key,
        "id": str(row.pk),
        "channel": row.channel,
        "accountId": row.account_id,
        "senderId": row.sender_id,
        "senderDisplayName": row.sender_name,
        "agentId": row.agent.agent_id,
        "title": row.title,
        "messageCount": row.message_count,
        "createdAt": iso(row.created_at),
        "lastActiveAt": iso(row.last_active_at),
    }


def turn(row: Turn) -> dict[str, Any]:
    """`content` is what was said; why a turn is partial or an error stands in `error`."""
    return {
        "role": row.role,
        "content": row.content,
        "timestamp": iso(row.created_at),
        "toolCallIds": row.tool_call_ids,
        "turnId": str(row.pk),
        "runId": str(row.run_id) if row.run_id else None,
        "state": row.state,
        "error": row.error_message or None,
        "errorCode": row.error_code or None,
    }


def run(transcript: RunTranscript, row: Session) -> dict[str, Any]:
    """A run with the text it answered (null until it ended) and the ids of its tool executions."""
    view = transcript.run
    return {
        "runId": str(view.id),
        "sessionId": row.key,
        "agentId": view.agent_id,
        "status": view.status.value,
        "waitingOn": view.waiting_on.value if view.waiting_on else None,
        "text": transcript.answer if view.status.is_terminal else None,
        "error": view.error_message or None,
        "errorCode": view.error_code or None,
        "toolCallIds": [str(execution.id) for execution in transcript.executions],
        "usage": {"inputTokens": view.usage.input_tokens, "outputTokens": view.usage.output_tokens},
        "createdAt": iso(view.created_at),
        "startedAt": iso(view.started_at),
        "endedAt": iso(view.ended_at),
    }


def execution(view: ExecutionView) -> dict[str, Any]:
    """Exactly the fields of a tool execution result. output: a string that holds JSON."""
    return {
        "executionId": str(view.id),
        "status": view.status.value,
        "output": view.output,
        "error": view.error,
        "completedAt": iso(view.completed_at),
        "duration": time_span(view.duration_seconds),
    }


def approval(view: ApprovalView) -> dict[str, Any]:
    """A request for a person's decision; arguments as they would be used, secrets masked."""
    return {
        "approvalId": str(view.id),
        "executionId": str(view.execution_id),
        "runId": str(view.run_id),
        "agentId": view.agent_id,
        "toolName": view.tool,
        "parameters": redact.masked(view.arguments),
        "risk": view.risk,
        "reason": view.reason,
        "status": view.status.value,
        "decidedBy": view.decided_by or None,
        "note": view.note,
        "createdAt": iso(view.created_at),
        "expiresAt": iso(view.expires_at),
        "decidedAt": iso(view.decided_at),
    }


def agent(row: Agent) -> dict[str, Any]:
    """row: loaded with its provider."""
    shown = {name: getattr(row, column) for name, column in _AGENT_FIELDS.items()}
    return {
        **shown,
        "modelProvider": row.provider.name,
        "ownerId": None if row.owner_id is None else str(row.owner_id),
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
    }


def api_key(row: ApiKey) -> dict[str, Any]:
    """Never the key itself: only what to recognise it by."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "prefix": f"sk-user-{row.prefix}",
        "scopes": row.scopes,
        "createdAt": iso(row.created_at),
        "expiresAt": iso(row.expires_at),
        "lastUsedAt": iso(row.last_used_at),
        "revokedAt": iso(row.revoked_at),
    }


def audit_entry(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "action": row.action,
        "actorId": row.actor,
        "agentId": row.agent_id or None,
        "sessionId": row.session_key or (str(row.session_id) if row.session_id else None),
        "requestId": row.request_id or None,
        "timestamp": iso(row.at),
        "details": row.details,
    }

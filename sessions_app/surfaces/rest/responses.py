"""What this surface shows of each object: camelCase dictionaries. Reads nothing that is not loaded already."""

from collections.abc import Collection, Sequence
from typing import Any

from django.contrib.auth.models import User

from agents_app.models import Agent
from agents_app.types import RunTranscript
from audit_app.kernel import redact
from audit_app.models import AuditEntry
from sessions_app.approvals import prompt_text
from sessions_app.identity.actor_names import display_name
from sessions_app.models import ApiKey, Session, Turn
from sessions_app.selectors import citations_of
from sessions_app.surfaces.base.citations_json import shown_citations
from sessions_app.surfaces.base.timestamps import iso, time_span
from tools_app.models import Credential
from tools_app.policy.emergency_stop import ControlView
from tools_app.policy.grants import GrantView
from tools_app.receipts.receipts import ReceiptCheck
from tools_app.skills.permissions import Permission
from tools_app.skills.registry import InstallView, SkillView
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ApprovalStatus, ApprovalView, Decision, ExecutionView

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
    "allowedTools": "allowed_tools",
    "deniedTools": "denied_tools",
    "alwaysAsk": "always_ask",
    "autoApprove": "auto_approve",
    "allowedHosts": "allowed_hosts",
    "deniedHosts": "denied_hosts",
    "busyPolicy": "busy_policy",
    "queueLimit": "queue_limit",
    "maxToolRounds": "max_tool_rounds",
    "maxActiveSeconds": "max_active_seconds",
    "maxCallSeconds": "max_call_seconds",
    "maxIdleSeconds": "max_idle_seconds",
    "maxTries": "max_tries",
}


def user(person: User) -> dict[str, Any]:
    name = display_name(person)
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
    """`content` is what was said; why a turn is partial or an error stands in `error`, what it cites in `citations`,
    in the order of the markers."""
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
        "citations": shown_citations(citations_of(row)),
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
        "question": _question(transcript.executions),
        "text": transcript.answer if view.status.is_terminal else None,
        "error": view.error_message or None,
        "errorCode": view.error_code or None,
        "toolCallIds": [str(execution.id) for execution in transcript.executions],
        "usage": {"inputTokens": view.usage.input_tokens, "outputTokens": view.usage.output_tokens},
        "createdAt": iso(view.created_at),
        "startedAt": iso(view.started_at),
        "endedAt": iso(view.ended_at),
    }


def _question(executions: Sequence[ExecutionView]) -> dict[str, Any] | None:
    """What the run asks its person now: the next message of the session is the answer."""
    asked = next((one for one in executions if one.tool == "ask_user" and not one.status.is_terminal), None)
    if asked is None:
        return None
    return {"text": asked.arguments.get("question", ""), "options": asked.arguments.get("options", [])}


def execution(view: ExecutionView) -> dict[str, Any]:
    """The fields of a tool execution result, and its receipt. output: a string that holds JSON."""
    return {
        "executionId": str(view.id),
        "status": view.status.value,
        "output": view.output,
        "error": view.error,
        "completedAt": iso(view.completed_at),
        "duration": time_span(view.duration_seconds),
        "receipt": view.receipt or None,
    }


def receipt_verdict(verdict: ReceiptCheck) -> dict[str, Any]:
    return {
        "valid": verdict.is_valid,
        "executionId": str(verdict.execution_id) if verdict.execution_id else None,
        "reason": verdict.reason,
    }


def approval(view: ApprovalView, *, session_key: str, allowed_decisions: Collection[Decision]) -> dict[str, Any]:
    """A request for a person's decision; arguments as they would be used, secrets masked.

    may_say: all that the caller may say to requests of that session. choices: what they may say to this one now;
    patterns: what the wider ones would allow; mayDecide: whether they may say anything.
    """
    is_open = view.status is ApprovalStatus.PENDING
    choices = prompt_text.narrowed(view, allowed_decisions).choices if is_open else ()
    return {
        "approvalId": str(view.id),
        "executionId": str(view.execution_id),
        "runId": str(view.run_id),
        "sessionId": session_key or str(view.session_id),
        "agentId": view.agent_id,
        "toolName": view.tool,
        "parameters": redact.masked(view.arguments),
        "risk": view.risk,
        "reason": view.reason,
        "choices": [choice.value for choice in choices],
        "patterns": {"allow_run": view.run_pattern or None, "allow_always": view.pattern or None},
        "mayDecide": bool(choices),
        "status": view.status.value,
        "decision": view.decision or None,
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
        "mcpServers": row.mcp_servers if row.mcp_servers_mode == "list" else row.mcp_servers_mode,
        "budgets": {name: row.budgets.get(name) for name in ("actionsPerHour", "costPerHour")},
        "modelProvider": row.provider.name,
        "ownerId": None if row.owner_id is None else str(row.owner_id),
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
    }


def grant(view: GrantView) -> dict[str, Any]:
    return {
        "grantId": str(view.id),
        "pattern": view.pattern,
        "grantedBy": view.granted_by,
        "createdAt": iso(view.created_at),
    }


def control(everything: ControlView, stopped: Sequence[ControlView]) -> dict[str, Any]:
    """everything: the stop of all agents; stopped: each scope that is stopped now."""
    return {
        "stopped": everything.is_stopped,
        **_change(everything),
        "stoppedAgents": [{"agentId": view.scope, **_change(view)} for view in stopped if view.scope],
    }


def _change(view: ControlView) -> dict[str, Any]:
    return {"reason": view.reason, "changedBy": view.changed_by or None, "changedAt": iso(view.changed_at)}


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


def credential(row: Credential) -> dict[str, Any]:
    """Never the value: only that there is one, and when it was set and used."""
    return {
        "name": row.name,
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
        "lastUsedAt": iso(row.last_used_at),
    }


def skill(view: SkillView) -> dict[str, Any]:
    """The manifest as it was published, with what the registry knows of it. Permissions are objects, whatever shape
    they came in, and include what the skill's kind implies."""
    manifest = view.manifest
    return {
        **view.data,
        "description": manifest.description,
        "category": manifest.category,
        "kind": manifest.kind.value,
        "inputSchema": manifest.input_schema,
        "outputSchema": manifest.output_schema,
        "requiredPermissions": [_permission(permission) for permission in manifest.required],
        "declaredToolAccess": list(manifest.declared_tool_access),
        "risk": manifest.risk.value,
        "effect": manifest.effect.value,
        "timeoutSeconds": manifest.timeout_seconds,
        "signatureHash": manifest.signature_hash or None,
        "digest": view.digest,
        "isVerified": view.is_verified,
        "versions": list(view.versions),
        "createdAt": iso(view.created_at),
    }


def skill_install(view: InstallView) -> dict[str, Any]:
    return {
        "agentId": view.agent_id,
        "skillId": view.skill_id,
        "version": view.version,
        "grantedPermissions": [_permission(permission) for permission in view.granted],
        "missingPermissions": [_permission(permission) for permission in view.lacking],
        "installedAt": iso(view.installed_at),
    }


def _permission(permission: Permission) -> dict[str, Any]:
    return {"resource": permission.resource, "access": permission.access, "scope": permission.scope or None}


def artifact(view: ArtifactView, session_key: str) -> dict[str, Any]:
    return {
        "artifactId": str(view.id),
        "sessionId": session_key,
        "runId": str(view.run_id) if view.run_id else None,
        "path": view.path,
        "mediaType": view.media_type,
        "sizeBytes": view.size_bytes,
        "sha256": view.sha256,
        "updatedAt": iso(view.updated_at),
        "url": f"/api/artifacts/{view.id}",
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

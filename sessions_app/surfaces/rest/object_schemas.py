"""What this surface answers, as JSON Schemas: the same fields as `shapes` and the views give, none more."""

from agents_app.models import Agent
from agents_app.types import RunStatus, WaitingOn
from sessions_app.identity.principal import SCOPES
from sessions_app.models import Turn
from sessions_app.surfaces.base.openapi.schemas import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    extended,
    just,
    list_of,
    map_of,
    nullable,
    one_of,
    record,
    ref,
)
from tools_app.models import McpServer
from tools_app.skills.manifest import Kind
from tools_app.types import ApprovalStatus, Decision, Effect, ExecutionStatus, Risk

_TEXTS = list_of(TEXT)
_MAYBE_TEXT = nullable(TEXT)
_MAYBE_TIME = nullable(TIME)
_RISK = one_of(Risk)
_EFFECT = one_of(Effect)


def _words(choices: list[tuple[str, str]]) -> Schema:
    return one_of(word for word, _ in choices)


def answer(data: Schema) -> Schema:
    """The envelope of a success."""
    meta = nullable(OBJECT)
    return record({"success": just(True), "data": data, "error": NULL, "meta": meta})


def answer_with(data: Schema, meta: Schema) -> Schema:
    """The envelope of a success whose `meta` says something."""
    return record({"success": just(True), "data": data, "error": NULL, "meta": meta})


ERROR = record(
    {
        "success": just(False),
        "data": NULL,
        "error": about(TEXT, "What to do, for people."),
        "meta": record({"code": about(TEXT, "Stable, for programs.")}, open_ended=True),
    }
)
PAGE = record({"total": COUNT, "page": INTEGER, "pageSize": INTEGER}, optional=["total"])
TOKENS = {"token": about(TEXT, "A JWT."), "refreshToken": about(TEXT, "To be used once.")}
USER = record({"id": TEXT, "name": TEXT, "email": TEXT, "initials": TEXT})
TICKET = record({"ticket": TEXT, "expiresInSeconds": INTEGER})
SESSION = record(
    {
        "sessionId": about(TEXT, "The public id: {Channel}:{AccountId}:{SenderId}[:{ThreadId}]."),
        "id": UUID,
        "channel": TEXT,
        "accountId": TEXT,
        "senderId": TEXT,
        "senderDisplayName": TEXT,
        "agentId": TEXT,
        "title": TEXT,
        "messageCount": COUNT,
        "createdAt": TIME,
        "lastActiveAt": TIME,
    }
)
CITATION = record(
    {
        "id": UUID,
        "number": COUNT,
        "uri": TEXT,
        "title": TEXT,
        "quote": TEXT,
        "offset": about(COUNT, "Of the marker in the text, in code points."),
        "length": COUNT,
        "sourceOffset": about(nullable(COUNT), "Of the quote in its source."),
    }
)
TURN = record(
    {
        "role": _words(Turn.ROLES),
        "content": TEXT,
        "timestamp": TIME,
        "toolCallIds": nullable(list_of(UUID)),
        "turnId": UUID,
        "runId": nullable(UUID),
        "state": _words(Turn.STATES),
        "error": _MAYBE_TEXT,
        "errorCode": _MAYBE_TEXT,
        "citations": about(list_of(CITATION), "In the order of the markers in `content`."),
    }
)
RUN = record(
    {
        "runId": UUID,
        "sessionId": TEXT,
        "agentId": TEXT,
        "status": one_of(RunStatus),
        "waitingOn": one_of([*WaitingOn, None]),
        "question": nullable(about(record({"text": TEXT, "options": _TEXTS}), "What it asks its person now.")),
        "text": about(_MAYBE_TEXT, "The answer; null until the run has ended."),
        "error": _MAYBE_TEXT,
        "errorCode": _MAYBE_TEXT,
        "toolCallIds": list_of(UUID),
        "usage": record({"inputTokens": COUNT, "outputTokens": COUNT}),
        "createdAt": TIME,
        "startedAt": _MAYBE_TIME,
        "endedAt": _MAYBE_TIME,
    }
)
ANSWERED = record({"sessionId": TEXT, "text": TEXT, "timestamp": TIME})
ACCEPTED = record({"sessionId": TEXT, "runId": UUID})
EXECUTION = record(
    {
        "executionId": UUID,
        "status": one_of(ExecutionStatus),
        "output": about(_MAYBE_TEXT, "A text that holds JSON."),
        "error": _MAYBE_TEXT,
        "completedAt": _MAYBE_TIME,
        "duration": about(_MAYBE_TEXT, "[days.]hh:mm:ss[.fff]"),
        "receipt": _MAYBE_TEXT,
    }
)
VERDICT = record({"valid": BOOLEAN, "executionId": nullable(UUID), "reason": TEXT})
APPROVAL = record(
    {
        "approvalId": UUID,
        "executionId": UUID,
        "runId": UUID,
        "sessionId": TEXT,
        "agentId": TEXT,
        "toolName": TEXT,
        "parameters": about(ANYTHING, "The arguments as they would be used, secrets masked."),
        "risk": _RISK,
        "reason": TEXT,
        "choices": list_of(one_of(Decision)),
        "patterns": record({"allow_run": _MAYBE_TEXT, "allow_always": _MAYBE_TEXT}),
        "mayDecide": about(BOOLEAN, "Whether you may."),
        "status": one_of(ApprovalStatus),
        "decision": one_of([*Decision, None]),
        "decidedBy": _MAYBE_TEXT,
        "note": TEXT,
        "createdAt": TIME,
        "expiresAt": TIME,
        "decidedAt": _MAYBE_TIME,
    }
)
AGENT = record(
    {
        "agentId": TEXT,
        "name": TEXT,
        "description": _MAYBE_TEXT,
        "systemPrompt": TEXT,
        "modelId": TEXT,
        "maxContextTokens": INTEGER,
        "enabledSkillIds": _TEXTS,
        "allowedChannels": about(_TEXTS, "Empty: all."),
        "enabledTools": about(nullable(_TEXTS), "Null: all."),
        "autonomy": _words(Agent.AUTONOMY),
        "allowedTools": _TEXTS,
        "deniedTools": _TEXTS,
        "alwaysAsk": _TEXTS,
        "autoApprove": _TEXTS,
        "allowedHosts": _TEXTS,
        "deniedHosts": _TEXTS,
        "busyPolicy": _words(Agent.BUSY),
        "queueLimit": COUNT,
        "maxToolRounds": COUNT,
        "maxActiveSeconds": INTEGER,
        "maxCallSeconds": INTEGER,
        "maxIdleSeconds": INTEGER,
        "maxTries": INTEGER,
        "mcpServers": {"anyOf": [one_of(["none", "inherit"]), _TEXTS]},
        "budgets": record({"actionsPerHour": nullable(INTEGER), "costPerHour": nullable(NUMBER)}),
        "modelProvider": TEXT,
        "ownerId": _MAYBE_TEXT,
        "createdAt": TIME,
        "updatedAt": TIME,
    }
)
GRANT = record({"grantId": UUID, "pattern": TEXT, "grantedBy": TEXT, "createdAt": TIME})
_CHANGE = {"reason": TEXT, "changedBy": _MAYBE_TEXT, "changedAt": _MAYBE_TIME}
CONTROL = record({"stopped": BOOLEAN, **_CHANGE, "stoppedAgents": list_of(record({"agentId": TEXT, **_CHANGE}))})
API_KEY = record(
    {
        "id": UUID,
        "name": TEXT,
        "prefix": TEXT,
        "scopes": list_of(one_of(SCOPES)),
        "createdAt": TIME,
        "expiresAt": _MAYBE_TIME,
        "lastUsedAt": _MAYBE_TIME,
        "revokedAt": _MAYBE_TIME,
    }
)
CREDENTIAL = record({"name": TEXT, "createdAt": TIME, "updatedAt": TIME, "lastUsedAt": _MAYBE_TIME})
PERMISSION = record({"resource": TEXT, "access": TEXT, "scope": _MAYBE_TEXT})
_PERMISSIONS = list_of(ref("Permission"))
SKILL = record(
    {
        "skillId": TEXT,
        "name": TEXT,
        "version": TEXT,
        "publisherId": TEXT,
        "description": TEXT,
        "category": TEXT,
        "kind": one_of(Kind),
        "inputSchema": OBJECT,
        "outputSchema": nullable(OBJECT),
        "requiredPermissions": _PERMISSIONS,
        "declaredToolAccess": _TEXTS,
        "risk": _RISK,
        "effect": _EFFECT,
        "timeoutSeconds": INTEGER,
        "signatureHash": _MAYBE_TEXT,
        "digest": TEXT,
        "isVerified": BOOLEAN,
        "versions": about(_TEXTS, "Newest first."),
        "createdAt": TIME,
        "http": nullable(OBJECT),
        "mcp": nullable(OBJECT),
        "instruction": nullable(OBJECT),
    },
    optional=["http", "mcp", "instruction"],
)
SKILL_INSTALL = record(
    {
        "agentId": TEXT,
        "skillId": TEXT,
        "version": TEXT,
        "grantedPermissions": _PERMISSIONS,
        "missingPermissions": _PERMISSIONS,
        "installedAt": TIME,
    }
)
AUDIT_ENTRY = record(
    {
        "id": TEXT,
        "action": TEXT,
        "actorId": TEXT,
        "agentId": _MAYBE_TEXT,
        "sessionId": _MAYBE_TEXT,
        "requestId": _MAYBE_TEXT,
        "timestamp": TIME,
        "details": OBJECT,
    }
)
ARTIFACT = record(
    {
        "artifactId": UUID,
        "sessionId": TEXT,
        "runId": nullable(UUID),
        "path": TEXT,
        "mediaType": TEXT,
        "sizeBytes": COUNT,
        "sha256": TEXT,
        "updatedAt": TIME,
        "url": about(TEXT, "Where its bytes are, here."),
    }
)
MCP_TOOL = record(
    {
        "name": TEXT,
        "description": TEXT,
        "state": one_of(["offered", "off", "gone", "new", "changed"]),
        "claims": OBJECT,
        "risk": one_of([*Risk, None]),
        "effect": one_of([*Effect, None]),
        "parameters": OBJECT,
    }
)
MCP_SERVER = record(
    {
        "name": TEXT,
        "transport": _words(McpServer.TRANSPORTS),
        "command": TEXT,
        "arguments": _TEXTS,
        "environment": map_of(TEXT),
        "url": TEXT,
        "headers": map_of(TEXT),
        "isEnabled": BOOLEAN,
        "defaultRisk": _RISK,
        "defaultEffect": _EFFECT,
        "connectSeconds": INTEGER,
        "callSeconds": INTEGER,
        "state": _words(McpServer.STATES),
        "lastError": _MAYBE_TEXT,
        "reachedAt": _MAYBE_TIME,
        "tools": list_of(ref("McpTool")),
    }
)
_MCP_CHANGES = record({"new": _TEXTS, "changed": _TEXTS, "gone": _TEXTS, "leftOut": _TEXTS})

COMPONENTS: dict[str, Schema] = {
    "Error": ERROR,
    "Page": PAGE,
    "User": USER,
    "Tokens": record(TOKENS),
    "Login": record({**TOKENS, "user": ref("User")}),
    "Ticket": TICKET,
    "Session": SESSION,
    "SessionPolicy": record({"readonly": BOOLEAN, "deniedTools": _TEXTS}),
    "Turn": TURN,
    "Run": RUN,
    "Answered": ANSWERED,
    "Accepted": ACCEPTED,
    "Execution": EXECUTION,
    "ReceiptVerdict": VERDICT,
    "Approval": APPROVAL,
    "Agent": AGENT,
    "AgentInFull": extended(AGENT, {"grants": list_of(ref("Grant"))}),
    "Grant": GRANT,
    "Control": CONTROL,
    "ApiKey": API_KEY,
    "NewApiKey": extended(API_KEY, {"key": about(TEXT, "The key itself, this once.")}),
    "Credential": CREDENTIAL,
    "Permission": PERMISSION,
    "Skill": SKILL,
    "SkillInstall": SKILL_INSTALL,
    "AuditEntry": AUDIT_ENTRY,
    "Artifact": ARTIFACT,
    "McpTool": MCP_TOOL,
    "McpServer": MCP_SERVER,
    "McpServerRefreshed": extended(MCP_SERVER, {"changes": _MCP_CHANGES}),
    "McpServerApproved": extended(MCP_SERVER, {"approved": _TEXTS}),
}

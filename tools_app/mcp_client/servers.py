"""The rows of MCP servers and their tools: added, listed, approved, changed, removed. Synchronous."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, NotFound, found
from audit_app.kernel.rules import check_row
from tools_app import conf
from tools_app.mcp_client.config import Greeting, ServerConfig, Tokens
from tools_app.mcp_client.listed_tool import ListedTool
from tools_app.models import McpAuthorization, McpServer, McpTool
from tools_app.secrets import credentials
from tools_app.types import view_of

_MAX_ERROR = 1_000
_TOKENS = "tools_app.mcp_client.bearer_tokens.BearerTokens"


@dataclass(frozen=True)
class Listed:
    """Changes by a listing: names of new tools, of tools that differ from the approved ones, and of removed tools."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]


def add_server(**settings: Any) -> McpServer:
    """Add a server with these fields. Owns its transaction. Raises InvalidInput, Conflict (server_exists)."""
    server = McpServer(**settings)
    check_row(server, code="bad_server")
    if McpServer.objects.filter(name=server.name).exists():
        raise Conflict(f"The MCP server {server.name!r} already exists.", code="server_exists")
    with transaction.atomic():
        server.save()
        audit.record("McpServerCreated", details={"name": server.name, "transport": server.transport})
    return server


def change_server(server: McpServer, **settings: Any) -> McpServer:
    """Change fields of the row. Owns its transaction. Raises InvalidInput, and NotFound if it was deleted meanwhile."""
    for name, value in settings.items():
        setattr(server, name, value)
    check_row(server, code="bad_server")
    with transaction.atomic():
        rows = McpServer.objects.select_for_update(no_key=True).filter(pk=server.pk)
        found(rows.values_list("pk").first(), f"There is no MCP server {server.name!r}.")
        # Not all columns: processes with a connection write the server's state concurrently.
        server.save(update_fields=[*settings, "settings_version", "updated_at"])
        audit.record("McpServerUpdated", details={"name": server.name, "fields": sorted(settings)})
    return server


def get_server(name: str) -> McpServer:
    """Return a server by name. Raises NotFound."""
    return found(McpServer.objects.filter(name=name).first(), f"There is no MCP server {name!r}.")


def load_config(server_id: UUID) -> ServerConfig:
    """Return a server's configuration, with credentials resolved. Raises NotFound, UnknownCredential, SealError."""
    return config_of(found(McpServer.objects.filter(id=server_id).first(), "The MCP server no longer exists."))


def config_of(server: McpServer) -> ServerConfig:
    """Return the configuration of this row, saved or not, as `load_config` does."""
    return view_of(
        ServerConfig,
        server,
        arguments=tuple(server.arguments),
        environment=_resolved(server, server.environment),
        folder=conf.mcp_folder() / server.name,
        headers=_resolved(server, server.headers),
        tokens=_tokens_of(server),
    )


def has_own_authorization(server: McpServer) -> bool:
    """Return whether the operator has set what authorizes at the server: OAuth is not used for it."""
    return any(name.lower() == "authorization" for name in server.headers)


def _tokens_of(server: McpServer) -> Tokens | None:
    if server.transport == "stdio" or has_own_authorization(server):
        return None
    tokens: Tokens = import_string(_TOKENS)(server.id, server.url)
    return tokens


def _resolved(server: McpServer, texts: Mapping[str, str]) -> dict[str, str]:
    purpose = f"MCP server {server.name}"
    return {name: credentials.resolve_references(text, owner_id=None, purpose=purpose) for name, text in texts.items()}


def store_listing(server_id: UUID, tools: Iterable[ListedTool], greeting: Greeting) -> Listed:
    """Store the tools that a server lists, and that it works. Owns its transaction.

    The first listing of a server is approved as it is; tools that are added or changed later wait for approval. Removed
    tools are deleted unless an operator has changed them: a server may invent new names forever.
    """
    listed = {tool.name: tool for tool in tools}
    with transaction.atomic():
        servers = McpServer.objects.filter(id=server_id)
        known = {row.name: row for row in McpTool.objects.filter(server_id=server_id)}
        is_first = not known and servers.filter(reached_at=None).exists()
        servers.update(greeting=greeting.to_json(), reached_at=Now())
        if not McpAuthorization.objects.filter(server_id=server_id).exclude(missing_scope="").exists():
            servers.update(state="ok", last_error="")
        new = [name for name in listed if name not in known]
        rows = [_row(server_id, listed[name], approved=is_first) for name in new]
        McpTool.objects.bulk_create(rows, ignore_conflicts=True)
        changed = [name for name in listed if name in known and _differs(known[name], listed[name])]
        for name in changed:
            McpTool.objects.filter(pk=known[name].pk).update(**_columns(listed[name]), is_listed=True)
        gone = [name for name, row in known.items() if row.is_listed and name not in listed]
        untouched = [known[name].pk for name in gone if not _is_curated(known[name])]
        McpTool.objects.filter(pk__in=untouched).delete()
        McpTool.objects.filter(server_id=server_id, name__in=gone).update(is_listed=False)
        if new or changed or gone:
            servers.update(tools_version=F("tools_version") + 1)
            server = servers.values_list("name", flat=True).first() or ""
            changes = {"server": server, "new": new[:50], "changed": changed[:50], "gone": gone[:50]}
            audit.record("McpToolsListed", details={**changes, "approved": is_first})
    return Listed(tuple(new), tuple(changed), tuple(gone))


def _differs(row: McpTool, tool: ListedTool) -> bool:
    return not row.is_listed or row.digest != tool.digest or row.hints != tool.hints


def _is_curated(row: McpTool) -> bool:
    """Return whether an operator has approved, rated or disabled it."""
    return bool(row.approved_digest or row.risk or row.effect) or not row.is_enabled


def _row(server_id: UUID, tool: ListedTool, *, approved: bool) -> McpTool:
    digest = tool.digest if approved else ""
    return McpTool(server_id=server_id, name=tool.name, approved_digest=digest, **_columns(tool))


def _columns(tool: ListedTool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in ("title", "description", "parameters", "hints", "digest")}


def store_fault(server_id: UUID, problem: str, state: str = "failing") -> None:
    """Store why a server cannot be used, for operators. state: failing | needs_authorization."""
    rows = McpServer.objects.filter(id=server_id)
    values = {"state": state, "last_error": problem[:_MAX_ERROR]}
    if state == "failing":
        rows.update(**values)
        return
    with transaction.atomic():
        if rows.exclude(state=state).update(**values):  # the first reason is the cause of those after it
            details = {"name": rows.values_list("name", flat=True).first(), "why": problem[:_MAX_ERROR]}
            audit.record("McpServerNeedsAuthorization", details=details)


def approve_tools(server: McpServer, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Approve tools as listed now; by default all of the server's. Owns its transaction.

    Returns the names that were not approved before. Raises NotFound for a name that the server does not list.
    """
    with transaction.atomic():
        rows = {row.name: row for row in server.tools.filter(is_listed=True)}
        wanted = list(rows if names is None else names)
        unknown = [name for name in wanted if name not in rows]
        if unknown:
            raise NotFound(f"The MCP server {server.name} lists no tool {unknown[0]!r}.")
        approved = tuple(name for name in wanted if not rows[name].is_approved)
        for name in approved:
            McpTool.objects.filter(pk=rows[name].pk).update(approved_digest=rows[name].digest)
        if approved:
            touch_tools(server)
            audit.record("McpToolsApproved", details={"server": server.name, "tools": list(approved[:50])})
    return approved


def touch_tools(server: McpServer) -> None:
    """Record that the tools which the server offers to agents have changed."""
    McpServer.objects.filter(pk=server.pk).update(tools_version=F("tools_version") + 1)


def credential_changed(name: str, owner_id: int | None) -> None:
    """Reconnect the servers that use a stored or deleted credential. Joins the caller's transaction."""
    if owner_id is not None:
        return
    for server in McpServer.objects.all():
        texts = (*server.environment.values(), *server.headers.values())
        if any(name in credentials.find_references(text) for text in texts):
            McpServer.objects.filter(pk=server.pk).update(settings_version=F("settings_version") + 1)


def list_live() -> dict[UUID, int]:
    """Return the enabled servers, with the versions of their settings."""
    return dict(McpServer.objects.filter(is_enabled=True).order_by().values_list("id", "settings_version"))

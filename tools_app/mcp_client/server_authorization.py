"""Authorizations of MCP servers: begun and completed on a page, used and refreshed by workers, forgotten. Synchronous.

The flow itself loads the SDK and is imported by path.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.module_loading import import_string

from audit_app import services as audit
from audit_app.kernel import redact
from audit_app.kernel.errors import Conflict, InvalidInput, Unavailable
from tools_app import conf
from tools_app.mcp_client import client_document, servers
from tools_app.models import McpAuthorization, McpAuthorizationAttempt, McpServer
from tools_app.secrets import credentials, vault

ATTEMPT_MINUTES = 10
LEASE_SECONDS = 60
_LONGEST_SECONDS = 10 * 366 * 86_400
_FLOW = "tools_app.mcp_client.oauth_flow"


@dataclass(frozen=True)
class Login:
    """The user who authorizes, and the key of the browser session in which they do.

    session_key: empty for an authorization that a program begins for them. They complete it in any session of theirs.
    """

    user_id: int
    session_key: str = field(default="", repr=False)


@dataclass(frozen=True)
class AuthorizationState:
    """The authorization of a server, for operators: no secret.

    status: none | authorized | refused (the authorization server does not accept the tokens any more).
    scope, missing_scope: rights that were granted, and that the server has demanded in vain, separated by spaces.
    expires_at: end of the access token, which is renewed before; None: unknown.
    """

    status: str = "none"
    issuer: str = ""
    scope: str = ""
    missing_scope: str = ""
    authorized_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Stored:
    """The tokens of a server as stored. access_token: empty if there is none."""

    version: int = -1
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    client: str = field(default="", repr=False)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    refreshed_at: datetime | None = None
    expires_at: datetime | None = None


def begin(server: McpServer, login: Login, redirect_uri: str) -> str:
    """Return the address at which the user authorizes Komand. Network access. Raises InvalidInput, Unavailable."""
    if server.transport == "stdio" or servers.has_own_authorization(server):
        raise InvalidInput("Only servers with an address, and without a header Authorization, are authorized by OAuth.")
    secret = credentials.resolve_references(
        server.oauth_client_secret, owner_id=None, purpose=f"authorization of the MCP server {server.name}"
    )
    row = McpAuthorization.objects.filter(server=server).first()
    target = import_string(f"{_FLOW}.Target")(
        url=server.url,
        redirect_uri=redirect_uri,
        headers=servers.config_of(server).headers,
        reachable=conf.service_targets(),
        client=vault.unseal(row.client_sealed) if row and row.client_sealed else "",
        client_id=server.oauth_client_id,
        client_secret=secret,
        document_url=client_document.readable_url(),
        scope=" ".join(filter(None, (row.scope, row.missing_scope))) if row and row.missing_scope else "",
    )
    begun = _run(server, import_string(f"{_FLOW}.begin")(target))
    with transaction.atomic():
        McpAuthorizationAttempt.objects.filter(expires_at__lte=Now()).delete()
        McpAuthorizationAttempt.objects.create(
            state_digest=_digest(begun.state),
            server=server,
            user_id=login.user_id,
            login_digest=_digest(login.session_key),
            flow_sealed=vault.seal(json.dumps(begun.flow)),
            expires_at=timezone.now() + timedelta(minutes=ATTEMPT_MINUTES),
        )
        details = {"name": server.name, "issuer": begun.flow["endpoints"]["issuer"], "scope": begun.flow["scope"]}
        audit.record("McpAuthorizationBegun", details=details)
    return str(begun.url)


def complete(parameters: Mapping[str, str], login: Login) -> McpServer:
    """Store the tokens for the response with which the browser came back. Network access.

    parameters: state, code or error, and iss. Each state is accepted once, from the login that began.
    Raises Conflict (authorization_unknown), Unavailable (authorization_failed).
    """
    attempt = _take_attempt(parameters.get("state", ""), login)
    server, flow = attempt.server, json.loads(vault.unseal(attempt.flow_sealed))
    try:
        tokens = _run(server, _finish(server, flow, parameters))
    except Unavailable as problem:
        audit.record("McpAuthorizationFailed", details={"name": server.name, "why": problem.message})
        raise
    with transaction.atomic():
        McpAuthorization.objects.get_or_create(server=server)
        row = McpAuthorization.objects.filter(server=server)
        row.update(
            client_sealed=vault.seal(flow["client"]),
            endpoints=flow["endpoints"],
            missing_scope="",
            authorized_at=Now(),
            **_token_columns(tokens),
        )
        _reconnect(server)
        details = {"name": server.name, "issuer": flow["endpoints"]["issuer"], "scope": tokens["scope"]}
        audit.record("McpServerAuthorized", details=details)
    server.refresh_from_db()
    return server


async def _finish(server: McpServer, flow: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    import_string(f"{_FLOW}.check_issuer")(flow, parameters.get("iss"))
    problem = import_string("tools_app.mcp_client.oauth_http.FlowError")
    if error := parameters.get("error"):
        raise problem(f"The authorization was refused ({redact.masked_text(error)[:60]}).")
    if flow["endpoints"]["url"] != server.url:
        raise problem("The address of the server was changed meanwhile.")
    tokens: dict[str, Any] = await import_string(f"{_FLOW}.complete")(
        flow, parameters.get("code", ""), conf.service_targets()
    )
    return tokens


def _take_attempt(state: str, login: Login) -> McpAuthorizationAttempt:
    """Return and delete the attempt of this state, which the same login began less than ten minutes ago."""
    rows = McpAuthorizationAttempt.objects.filter(
        state_digest=_digest(state),
        user_id=login.user_id,
        login_digest__in=[_digest(login.session_key), _digest("")],
        expires_at__gt=Now(),
    )
    attempt = rows.select_related("server").first()
    if attempt is None or not rows.delete()[0]:  # another request has taken it
        audit.record("McpAuthorizationFailed", details={"why": "unknown, used or expired state"})
        raise Conflict(
            "This authorization is not known here: it was completed, was begun in another login, or took more than "
            f"{ATTEMPT_MINUTES} minutes. Press Authorize again.",
            code="authorization_unknown",
        )
    return attempt


def forget(server: McpServer) -> str:
    """Delete the tokens and the registered client, and revoke the tokens. Network access.

    Returns why they could not be revoked; empty if they were, or if there were none.
    """
    stored = _held(server)
    with transaction.atomic():
        if not McpAuthorization.objects.filter(server=server).delete()[0]:
            return ""
        McpAuthorizationAttempt.objects.filter(server=server).delete()
        _reconnect(server)
        audit.record("McpAuthorizationForgotten", details={"name": server.name})
    return _revoke(server, stored)


def remove_server(server: McpServer) -> str:
    """Delete a server with its tools and tokens, and revoke the tokens. Connections to it end within seconds.

    Owns its transaction. Network access, after it. Returns why the tokens could not be revoked, as `forget`.
    """
    stored = _held(server)
    with transaction.atomic():
        server.delete()
        audit.record("McpServerDeleted", details={"name": server.name})
    return _revoke(server, stored)


def revoke_on_commit(server: McpServer, failed: Callable[[str], object]) -> None:
    """Revoke the tokens of a server once the caller's transaction, which deletes it, commits. Network access.

    failed: called with the reason why they could not be revoked.
    """
    stored = _held(server)

    def revoke() -> None:
        if problem := _revoke(server, stored):
            failed(problem)

    transaction.on_commit(revoke)


def state_of(server: McpServer) -> AuthorizationState:
    """Return the state of a server's authorization. One statement."""
    row = McpAuthorization.objects.filter(server=server).first()
    if row is None or row.authorized_at is None:
        return AuthorizationState(missing_scope=row.missing_scope if row else "")
    return AuthorizationState(
        "authorized" if row.tokens_sealed else "refused",
        row.endpoints.get("issuer", ""),
        row.scope,
        row.missing_scope,
        row.authorized_at,
        row.expires_at,
    )


def _held(server: McpServer) -> Stored:
    """Return the tokens of a server, also for an address that it had before; none if no key opens them."""
    row = McpAuthorization.objects.filter(server=server).first()
    try:
        return load(server.id, row.endpoints.get("url", "")) if row else Stored()
    except vault.SealError:  # after the loss of a key they can still be deleted
        return Stored()


def _revoke(server: McpServer, stored: Stored) -> str:
    """Revoke tokens that are deleted here. Returns why they could not be, empty if they were or there were none."""
    if not stored.access_token:
        return ""
    held = {"access_token": stored.access_token, "refresh_token": stored.refresh_token}
    revocation = import_string(f"{_FLOW}.revoke")(stored.endpoints, stored.client, held, conf.service_targets())
    try:
        _run(server, revocation)
    except Unavailable as problem:
        return problem.message
    return ""


def load(server_id: UUID, url: str) -> Stored:
    """Return the stored tokens, if they are for this address. Raises SealError."""
    row = McpAuthorization.objects.filter(server_id=server_id).first()
    if row is None or not row.tokens_sealed or row.endpoints.get("url") != url:
        return Stored(row.version if row else -1)
    tokens = json.loads(vault.unseal(row.tokens_sealed))
    for secret in filter(None, tokens.values()):
        redact.remember(secret)
    return Stored(
        version=row.version,
        client=vault.unseal(row.client_sealed),
        endpoints=row.endpoints,
        scope=row.scope,
        refreshed_at=row.refreshed_at,
        expires_at=row.expires_at,
        **tokens,
    )


def claim_refresh(server_id: UUID, version: int) -> bool:
    """Take the lease on the refresh of the tokens of this version. Returns False if another process has it."""
    free = _at(server_id, version).filter(Q(refreshing_until=None) | Q(refreshing_until__lt=Now()))
    return bool(free.update(refreshing_until=Now() + timedelta(seconds=LEASE_SECONDS)))


def release_refresh(server_id: UUID, version: int) -> None:
    """Release the lease after a refresh that failed for a while."""
    _at(server_id, version).update(refreshing_until=None)


def store_refreshed(server_id: UUID, version: int, tokens: Mapping[str, Any]) -> bool:
    """Store what replaces the tokens of this version. Returns False if they were replaced or forgotten meanwhile."""
    return bool(_at(server_id, version).update(**_token_columns(tokens)))


def store_refused(server_id: UUID, version: int, why: str, *, drops_client: bool) -> None:
    """Drop tokens of this version that the authorization server does not renew; the server needs authorization."""
    dropped: dict[str, Any] = {"tokens_sealed": "", "version": F("version") + 1, "refreshing_until": None}
    if drops_client:
        dropped["client_sealed"] = ""
    with transaction.atomic():
        if _at(server_id, version).update(**dropped):
            servers.store_fault(server_id, why, "needs_authorization")


def store_missing_scope(server_id: UUID, scope: str, why: str) -> None:
    """Store which further rights the server demands; it needs authorization."""
    with transaction.atomic():
        McpAuthorization.objects.get_or_create(server_id=server_id)
        row = McpAuthorization.objects.select_for_update(no_key=True).get(server_id=server_id)
        merged = " ".join(dict.fromkeys([*row.missing_scope.split(), *scope.split()]))[:2_000]
        McpAuthorization.objects.filter(server_id=server_id).update(missing_scope=merged)
        servers.store_fault(server_id, why, "needs_authorization")


def _token_columns(tokens: Mapping[str, Any]) -> dict[str, Any]:
    seconds = tokens["seconds"]
    ends = None if seconds is None else Now() + timedelta(seconds=min(max(int(seconds), 0), _LONGEST_SECONDS))
    sealed = {"access_token": tokens["access_token"], "refresh_token": tokens["refresh_token"]}
    return {
        "tokens_sealed": vault.seal(json.dumps(sealed)),
        "scope": tokens["scope"],
        "expires_at": ends,
        "refreshed_at": Now(),
        "refreshing_until": None,
        "version": F("version") + 1,
    }


def _at(server_id: UUID, version: int) -> QuerySet[McpAuthorization]:
    return McpAuthorization.objects.filter(server_id=server_id, version=version)


def _reconnect(server: McpServer) -> None:
    """Forget the server's state, and have open connections renewed."""
    McpServer.objects.filter(pk=server.pk).update(
        state="unknown", last_error="", settings_version=F("settings_version") + 1
    )


def _run(server: McpServer, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a part of the flow on an event loop of its own. Raises Unavailable (authorization_failed) if it fails."""
    problem = import_string("tools_app.mcp_client.oauth_http.FlowError")
    try:
        return asyncio.run(work)
    except problem as error:
        raise Unavailable(f"The MCP server {server.name}: {error}", code="authorization_failed") from None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()

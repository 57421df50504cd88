"""Scopes of API keys: the surfaces and agents that a key extends to, and whether to its user's rights.

A key without scopes grants nothing. Logins and browser sessions have no scopes and are limited by their user alone.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from agents_app.configuration import agent_access
from agents_app.models import Agent
from audit_app import services as audit
from audit_app.kernel.errors import Forbidden, InvalidInput

ALL = "all"
READ = "read"
RIGHTS = "rights"
SENDERS_ANY = "senders:any"
AGENT = "agent:"
# Paths that exchange a credential for another with the same scopes: open to every key.
EXEMPT_PATHS = ("/api/auth/ticket", "/token/issue")
_READ_SUFFIX = f":{READ}"
_AGENT_ID = re.compile(r"agent:[-\w]{1,120}", re.ASCII)
_AGENTS = "_komand_agent_scopes"

_FIXED = {
    ALL: "Everything: read and write",
    READ: "Everything: read only",
    RIGHTS: "Use the user's admin rights (approvals, chats of others)",
    SENDERS_ANY: "Also send messages as any sender, not only as the key's user",
}
_surfaces: dict[str, tuple[str, ...]] = {}
_titles: dict[str, str] = {}


class MissingScope(Forbidden):
    """An API key lacks a scope. The message names it; `extra` has `scope`."""

    code = "missing_scope"

    def __init__(self, scope: str, *, code: str = "") -> None:
        super().__init__(
            f"This API key lacks the scope `{scope}`. Create a key that has it: in the admin, over REST or with "
            "`manage.py create_api_key`.",
            code=code,
            scope=scope,
        )


def declare_surface(name: str, title: str, prefixes: tuple[str, ...]) -> None:
    """Let a surface have the scopes `<name>` and `<name>:read`.

    title: its name for people.
    prefixes: of its paths.
    """
    _surfaces[name], _titles[name] = prefixes, title


def surface_at(path: str) -> str:
    """Return the name of the surface that owns a path, as the longest prefix; empty for paths of none."""
    every = [(len(prefix), prefix, name) for name, prefixes in _surfaces.items() for prefix in prefixes]
    return max((found for found in every if path.startswith(found[1])), default=(0, "", ""))[2]


def described() -> Mapping[str, str]:
    """Return all scopes but those of single agents, with their meaning."""
    found = dict(_FIXED)
    for name in sorted(_surfaces):
        found |= {name: f"{_titles[name]}: read and write", f"{name}{_READ_SUFFIX}": f"{_titles[name]}: read only"}
    return found


def checked(wanted: Iterable[str]) -> list[str]:
    """Return the scopes sorted and without repetitions. Raises InvalidInput (scopes_required, unknown_scope)."""
    scopes, known = sorted(set(wanted)), described()
    for scope in scopes:
        if scope not in known and not _AGENT_ID.fullmatch(scope):
            raise InvalidInput(
                f"Unknown scope {scope!r}. Known: {', '.join(known)} and agent:<id>.", code="unknown_scope"
            )
    if not any(scope.removesuffix(_READ_SUFFIX) in (ALL, READ, *_surfaces) for scope in scopes):
        raise InvalidInput(
            f"A key needs at least one surface in its scopes: {ALL}, {READ}, {', '.join(sorted(_surfaces))}.",
            code="scopes_required",
        )
    return scopes


def may_use(scopes: Collection[str], surface: str, *, writes: bool = False) -> bool:
    """Return whether the scopes of a key extend to a surface. surface: empty for a path of none."""
    if ALL in scopes or (surface and surface in scopes):
        return True
    return not writes and (READ in scopes or f"{surface}{_READ_SUFFIX}" in scopes)


def refuse(scope: str, actor: str, *, code: str = "") -> MissingScope:
    """Audit the refusal of a key and return the error to raise. Call it outside of a transaction."""
    audit.record("ScopeRefused", actor=actor, details={"scope": scope})
    return MissingScope(scope, code=code)


def limit_agents(user: User, scopes: Iterable[str]) -> None:
    """Limit this user object to the agents that the scopes of its key name, if they name any."""
    if agents := frozenset(scope.removeprefix(AGENT) for scope in scopes if scope.startswith(AGENT)):
        setattr(user, _AGENTS, agents)


def agents_of(user: User | AnonymousUser) -> frozenset[str] | None:
    """Return the public ids of the agents to which the user's key is limited; None if it is not."""
    found: frozenset[str] | None = getattr(user, _AGENTS, None)
    return found


def usable_agents(user: User | AnonymousUser, *, or_visible: bool = False) -> QuerySet[Agent]:
    """Return the agents that the user, and the scopes of the user's key, may use. or_visible: or see."""
    rows, among = agent_access.usable_agents(user, or_visible=or_visible), agents_of(user)
    return rows if among is None else rows.filter(agent_id__in=among)


def require_agent(user: User | AnonymousUser, agent: Agent) -> None:
    """Raise MissingScope if the user's key is limited to other agents. Audited, unless a transaction is rolled back."""
    agents = agents_of(user)
    if agents is not None and agent.agent_id not in agents:
        raise refuse(f"{AGENT}{agent.agent_id}", f"user:{user.pk}")

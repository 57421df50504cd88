"""The page on which users see, correct, approve and delete what agents remember about them."""

from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render

from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.safe_text import visible
from sessions_app.access import memory_owner
from sessions_app.surfaces.base.pages import PageRequest, page
from tools_app.models import Memory
from tools_app.storage import memories, own_memories

_PAGE = "/account/memories"
_AT_ONCE = 50
_LONGEST_EDITED = 20_000  # characters that a form shows; longer texts are corrected over REST
_SOURCES = {"person": "You said so", "tool": "From outside", "agent": "Concluded by the agent"}


@page("GET")
def list_memories(request: PageRequest) -> HttpResponse:
    """Show the user's memories: of all agents or one, all or those that match, in pages."""
    owner = memory_owner(request.user)
    query, agent_id = request.GET.get("q", ""), _agent_in(request.GET)
    found = own_memories.list_memories(
        owner, agent_id=agent_id, query=query, limit=_AT_ONCE, cursor=request.GET.get("cursor", "")
    )
    shown = {
        "memories": list(map(_shown, found.memories)),
        "agents": own_memories.list_agents(owner),
        "agent_id": agent_id,
        "query": query,
        "next": urlencode({"q": query, "agent": agent_id, "cursor": found.cursor}) if found.cursor else "",
        "most": memories.MAX_MEMORIES,
    }
    return render(request, "account/memories.html", shown)


@page("POST")
def change(request: PageRequest, memory_id: UUID) -> HttpResponse:
    """Correct the text of a memory."""
    text = request.POST.get("text", "").replace("\r\n", "\n")
    own_memories.change(memory_owner(request.user), memory_id, text=text)
    return _back(request, memory_id)


@page("POST")
def pin(request: PageRequest, memory_id: UUID) -> HttpResponse:
    """Pin a memory, or release it if the form says `is_pinned=0`."""
    own_memories.change(memory_owner(request.user), memory_id, is_pinned=request.POST.get("is_pinned") != "0")
    return _back(request, memory_id)


@page("POST")
def approve(request: PageRequest, memory_id: UUID) -> HttpResponse:
    """Approve a memory that comes from outside."""
    own_memories.approve(memory_owner(request.user), memory_id)
    return _back(request, memory_id)


@page("POST")
def delete(request: PageRequest, memory_id: UUID) -> HttpResponse:
    """Delete a memory."""
    own_memories.delete(memory_owner(request.user), memory_id)
    return _back(request)


@page("POST")
def delete_all(request: PageRequest) -> HttpResponse:
    """Delete all memories, or those of one agent, if the form confirms it."""
    if request.POST.get("confirmed") != "yes":
        raise InvalidInput("Nothing was deleted: tick the box to confirm it.", code="not_confirmed")
    own_memories.delete_all(memory_owner(request.user), agent_id=_agent_in(request.POST))
    return _back(request)


def _agent_in(given: QueryDict) -> str:
    """Return the public id of an agent, empty for all, without NUL: PostgreSQL rejects the query."""
    return given.get("agent", "").replace("\0", "")


def _shown(row: Memory) -> dict[str, object]:
    return {
        "row": row,
        "key": visible(row.key),
        "text": visible(row.text[:_LONGEST_EDITED]),
        "source": _SOURCES[row.source or ("tool" if row.origins else "agent")],
        "origins": ", ".join(map(visible, row.origins.splitlines())),
        "is_editable": len(row.text) <= _LONGEST_EDITED,
    }


def _back(request: PageRequest, memory_id: UUID | None = None) -> HttpResponse:
    kept = {name: request.POST[name] for name in ("q", "agent") if request.POST.get(name)}
    query = f"?{urlencode(kept)}" if kept else ""
    return HttpResponseRedirect(f"{_PAGE}{query}#memory-{memory_id}" if memory_id else f"{_PAGE}{query}")

"""Memories of agents about the caller, as resources."""

from sessions_app.access import memory_owner, uuid_or_404
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.registry import PAGE_SIZE, Content, Page, Resource, ResourceKind, resources
from tools_app.models import Memory
from tools_app.storage import own_memories


def _list_page(principal: Principal, cursor: str) -> Page:
    found = own_memories.list_memories(memory_owner(principal.user), limit=PAGE_SIZE, cursor=cursor)
    return Page([_resource(row) for row in found.memories], found.cursor)


def _resource(row: Memory) -> Resource:
    about = f"What the agent {row.agent_id} remembers about you."
    return Resource({"memory": str(row.pk)}, row.key, about, "text/plain", changed_at=row.updated_at)


def _read(principal: Principal, memory: str) -> Content:
    row = own_memories.get(memory_owner(principal.user), uuid_or_404(memory, "memory"))
    return Content(row.text, origins=tuple(row.origins.splitlines()))


resources.register(
    ResourceKind(
        "memories",
        "komand://memories/{memory}",
        "Memory",
        "A text that one of your agents remembers about you.",
        "text/plain",
        _list_page,
        _read,
    )
)

"""The caller's memories: what agents remember about them."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import memory_owner
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import INTEGER, record
from sessions_app.surfaces.rest.objects.memories import DeleteMemoriesQuery, MemoryBody, MemoryOut, MemoryQuery
from sessions_app.surfaces.rest.operations import scrolled
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.storage import own_memories


class MemoryList(RestView):
    @scrolled("List or search what agents remember about you", "memories", MemoryOut, MemoryQuery)
    def get(self, request: Request) -> Response:
        wanted = self.query()
        found = own_memories.list_memories(memory_owner(self.principal.user), **wanted)
        shown = [MemoryOut.of(row) for row in found.memories]
        return ok(shown, {"nextCursor": found.cursor or None})

    @Operation("Delete what agents remember about you", record({"deleted": INTEGER}), query=DeleteMemoriesQuery)
    def delete(self, request: Request) -> Response:
        """Delete all memories, or those of one agent."""
        agent_id = self.query()["agent_id"]
        return ok({"deleted": own_memories.delete_all(memory_owner(self.principal.user), agent_id=agent_id)})


class MemoryDetail(RestView):
    @Operation("Read a memory", MemoryOut)
    def get(self, request: Request, memory_id: UUID) -> Response:
        return ok(MemoryOut.of(own_memories.get(memory_owner(self.principal.user), memory_id)))

    @Operation("Correct or pin a memory", MemoryOut, body=MemoryBody)
    def put(self, request: Request, memory_id: UUID) -> Response:
        changes = self.body()
        changed = own_memories.change(memory_owner(self.principal.user), memory_id, **changes)
        return ok(MemoryOut.of(changed))

    @Operation("Delete a memory")
    def delete(self, request: Request, memory_id: UUID) -> Response:
        own_memories.delete(memory_owner(self.principal.user), memory_id)
        return ok(None)


class MemoryApprove(RestView):
    """Let a memory that comes from outside be used like others."""

    @Operation("Approve a memory from outside", MemoryOut)
    def post(self, request: Request, memory_id: UUID) -> Response:
        return ok(MemoryOut.of(own_memories.approve(memory_owner(self.principal.user), memory_id)))

"""Memories of the caller, by their keys. Those of an agent are apart from those of others; there are no categories."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import InvalidInput
from sessions_app.access import access_agent, memory_owner
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, list_of, record, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.zeroclaw import commands
from sessions_app.surfaces.zeroclaw.requests import AgentQuery, MemoryBody, MemoryQuery
from sessions_app.surfaces.zeroclaw.responses import CATEGORY, GatewayMemoryOut
from tools_app.storage import own_memories

_MOST, _MOST_FOUND = 500, 50


class MemoryList(PlainView):
    @Operation("List or search your memories", record({"entries": list_of(ref("GatewayMemory"))}), query=MemoryQuery)
    def get(self, request: Request) -> Response:
        """Return the newest 500, or the best 50 of a search; of one agent, or of all."""
        wanted = self.query()
        if wanted["category"] not in ("", CATEGORY):
            return Response({"entries": []})
        owner, query = memory_owner(self.principal.user), wanted["query"]
        limit = _MOST_FOUND if query else _MOST
        found = own_memories.list_memories(owner, agent_id=wanted["agent"], query=query, limit=limit).memories
        since, until = wanted["since"], wanted["until"]
        rows = [
            row for row in found if (not since or row.updated_at >= since) and (not until or row.updated_at < until)
        ]
        return Response({"entries": [GatewayMemoryOut.of(row) for row in rows]})

    @Operation("Store a memory", record({"stored": BOOLEAN}), body=MemoryBody, errors=[404])
    def post(self, request: Request) -> Response:
        """Store it as said by you, in place of the text under its key."""
        fields = self.body()
        if fields["category"] not in (None, "", CATEGORY):
            raise InvalidInput("Memories of Komand have no categories but core.", code="unknown_category")
        owner, agent_id = memory_owner(self.principal.user), self._agent(fields)
        own_memories.put(owner, agent_id, fields["key"], fields["content"])
        return Response({"stored": True})

    def _agent(self, fields: dict[str, Any]) -> str:
        return access_agent(self.principal.user, fields["agent"] or commands.DEFAULT_AGENT).agent_id


class MemoryDetail(PlainView):
    @Operation("Forget a memory", record({"deleted": BOOLEAN}), query=AgentQuery)
    def delete(self, request: Request, key: str) -> Response:
        """Return whether the agent had one under this key."""
        agent_id = self.query()["agent"] or commands.DEFAULT_AGENT
        is_deleted = own_memories.delete_key(memory_owner(self.principal.user), agent_id, key)
        return Response({"deleted": is_deleted})

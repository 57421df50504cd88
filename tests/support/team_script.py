"""A script for an agent and its workstreams, which call the same model."""

import re
from collections.abc import Mapping, Sequence

from agents_app.providers.kinds.scripted import Reply, Script
from agents_app.types import ModelRequest

_ROLE = re.compile(r"as the workstream '([^']+)'")


class TeamScript(Script):
    """Replies by the workstream of a request and by its number of assistant messages; the last reply is repeated."""

    def __init__(self, main: Sequence[Reply], children: Mapping[str, Sequence[Reply]]) -> None:
        super().__init__(tuple(main))
        self._replies = {"main": list(main), **children}

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        replies = self._replies[role_of(request)]
        turns = sum(message.role == "assistant" for message in request.messages)
        return replies[min(turns, len(replies) - 1)]

    def requests_of(self, role: str) -> list[ModelRequest]:
        """Return the requests of a workstream, or of `main`."""
        return [request for request in self.requests if role_of(request) == role]


def role_of(request: ModelRequest) -> str:
    found = _ROLE.search(request.messages[0].content)
    return found[1] if found else "main"

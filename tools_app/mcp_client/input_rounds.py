"""The rounds of one call in which its server asks a person: limits, questions, and the responses to the server.

A server of the newer revision, and one that demands that a link is opened first, ends the call to ask: the call is made
again with the answer (`AsksPerson`). A server of an older revision asks while the call runs: the call waits.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tools_app.mcp_client import elicitation
from tools_app.mcp_client.elicitation import Refused
from tools_app.mcp_client.errors import InputNeeded, Responses
from tools_app.mcp_client.form_fields import Misfit
from tools_app.types import AsksPerson, ToolContext, ToolError

MOST_ROUNDS = 10
MOST_STATE_BYTES = 64 * 1024
_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.05, 0.5  # before a call that has only a state to send back


class Send(Protocol):
    """Makes the call at the server. Raises InputNeeded and ToolError."""

    async def __call__(self, responses: Responses | None, asker: "Asker") -> Any: ...


@dataclass(frozen=True)
class Round:
    """State of a call between two attempts, stored sealed while a person is asked."""

    number: int
    requests: dict[str, Any] = field(default_factory=dict)
    state: str | None = None
    takes_responses: bool = True

    def to_text(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_text(cls, text: str) -> "Round":
        return cls(**json.loads(text))


class Asker:
    """Answers what a server of an older revision asks during a call.

    refusal: why the call must end, if its server has asked what it may not.
    """

    def __init__(self, server: str, context: ToolContext) -> None:
        self._server, self._context = server, context
        self._lock = asyncio.Lock()
        self._rounds = 0
        self.refusal: ToolError | None = None

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the response to a request; None to refuse it, with the reason in `refusal`."""
        async with self._lock:  # one question after the other
            requests, problem = {"asked": request}, ""
            while True:
                self._rounds += 1
                try:
                    questions = _questions_of(self._server, self._rounds, requests, problem)
                except ToolError as refused:
                    self.refusal = refused
                    return None
                reply = await self._context.ask_now(questions) if self._context.ask_now else None
                try:
                    return elicitation.responses_of(requests, reply)["asked"]
                except Misfit as misfit:
                    problem = str(misfit)


async def make_call(server: str, context: ToolContext, send: Send) -> Any:
    """Make a call, or go on with one that has asked, and return its value. Raises ToolError and AsksPerson."""
    current, responses = Round(0), None
    if context.resumed:
        current = Round.from_text(context.resumed.state)
        try:
            given = elicitation.responses_of(current.requests, context.resumed.answer)
        except Misfit as misfit:
            raise _asking(server, replace(current, number=current.number + 1), str(misfit)) from None
        if current.takes_responses:
            responses = Responses(given, current.state)
        elif any(response["action"] != "accept" for response in given.values()):
            raise ToolError(f"The MCP server {server} needs a page to be opened first, and the person did not open it.")
    while True:
        asker = Asker(server, context)
        try:
            return await send(responses, asker)
        except InputNeeded as needed:
            current = Round(current.number + 1, needed.requests, needed.state, needed.takes_responses)
            if len((needed.state or "").encode()) > MOST_STATE_BYTES:
                raise _refusal(server, f"its state has more than {MOST_STATE_BYTES // 1024} KB") from None
            if needed.requests:
                raise _asking(server, current) from None
            _check_rounds(server, current.number)
            await asyncio.sleep(min(_WAIT_SECONDS * 2**current.number, _LONGEST_WAIT_SECONDS))
            responses = Responses(None, needed.state)


def _asking(server: str, current: Round, problem: str = "") -> AsksPerson:
    """Return the exception that asks a person. Raises ToolError if the server may not ask that."""
    return AsksPerson(_questions_of(server, current.number, current.requests, problem), current.to_text())


def _questions_of(server: str, number: int, requests: Mapping[str, Any], problem: str) -> Any:
    _check_rounds(server, number)
    try:
        return elicitation.questions_of(server, requests, problem)
    except Refused as refused:
        raise _refusal(server, str(refused)) from None


def _check_rounds(server: str, number: int) -> None:
    if number > MOST_ROUNDS:
        raise _refusal(server, f"it asked more than {MOST_ROUNDS} times")


def _refusal(server: str, why: str) -> ToolError:
    return ToolError(f"The call was ended because of the MCP server {server}: {why}. A repetition would not help.")

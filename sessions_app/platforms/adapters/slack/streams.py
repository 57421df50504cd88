"""Streamed answers: one message to which text and the states of tool calls are appended while a run works.

See https://docs.slack.dev/reference/methods/chat.startStream. A stream ends about five minutes after it began.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from os.path import commonprefix
from typing import Any

from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Outgoing, Target, ToolStatus

Call = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

_LONGEST = timedelta(minutes=4)
_MOST_OPEN = 1000
_STATES = {"running": "in_progress", "completed": "complete", "failed": "error"}
# Errors of an app or a workspace that cannot stream at all.
_NEVER = frozenset({"unknown_method", "missing_scope", "not_allowed_token_type", "team_not_found"})


@dataclass(frozen=True)
class _Stream:
    """The stream of a message.

    text: appended so far.
    latest: the last draft, of which the end may still change.
    """

    begun_at: datetime
    text: str = ""
    latest: str = ""
    tools: tuple[ToolStatus, ...] = ()

    def extended(self, message: Outgoing) -> "_Stream | None":
        """Return the stream once it shows a message; None if the message does not continue its text.

        Of a draft, only what two drafts in a row agree on is shown: open marks are closed at the end of each. The text
        before a new tool call is complete, and belongs above the call.
        """
        body, tools = message.rendered.body, message.tool_statuses
        is_complete = not message.is_draft or len(tools) > len(self.tools)
        text = body if is_complete else commonprefix([self.latest, body])
        if not message.is_draft:
            state = "failed" if message.kind == "failure" else "completed"
            tools = tuple(ToolStatus(tool.id, tool.tool, _end(tool.state, state)) for tool in self.tools)
        return _Stream(self.begun_at, text, body, tools) if text.startswith(self.text) else None

    def content_after(self, before: "_Stream") -> dict[str, Any]:
        """Return the fields that append what this stream shows more than it did before; empty if nothing."""
        text = self.text[len(before.text) :]
        changed = [tool for tool in self.tools if tool not in before.tools]
        if not changed:
            return {"markdown_text": text} if text else {}
        tasks = [
            {"type": "task_update", "id": tool.id, "title": tool.tool[:250], "status": _STATES[tool.state]}
            for tool in changed
        ]
        return {"chunks": [*([{"type": "markdown_text", "text": text}] if text else []), *tasks]}


def _end(state: str, end: str) -> str:
    return end if state == "running" else state


class Streams:
    """The open streams of an account.

    call: calls a method of the Web API.
    is_refused: Slack streams nothing here.
    """

    def __init__(self, call: Call, clock: Callable[[], datetime]) -> None:
        self._call, self._clock = call, clock
        self._open: dict[str, _Stream] = {}
        self.is_refused = False

    async def begin(self, message: Outgoing) -> str:
        """Return the id of a new message that is streamed; empty if Slack refuses. Raises SendError."""
        if self.is_refused or not (recipient := _recipient(message.target)):
            return ""
        begun = _Stream(self._clock())
        stream = begun.extended(message) or begun
        fields = {"channel": message.target.chat.id, "thread_ts": message.target.chat.thread_id, **recipient}
        try:
            answer = await self._call("chat.startStream", {**fields, **stream.content_after(begun)})
        except SendError as error:
            if not _is_refusal(error):
                raise
            self.is_refused = bool(_NEVER & {*error.message.split()})
            return ""
        self._keep(str(answer["ts"]), stream)
        return str(answer["ts"])

    async def edit(self, message: Outgoing, ts: str) -> bool:
        """Show a message by continuing the stream, and end the stream unless it is a draft.

        Returns False if the message is to be replaced instead: no stream shows it then. Raises SendError. Until Slack
        has answered, the stream counts as lost: nothing is appended twice.
        """
        if (stream := self._open.pop(ts, None)) is None and (message.is_draft or self.is_refused):
            return False
        after = stream.extended(message) if stream and not message.buttons else None
        content = after.content_after(stream) if stream and after else {}
        place = {"channel": message.target.chat.id, "ts": ts}
        try:
            if stream and after and message.is_draft and self._clock() - stream.begun_at < _LONGEST:
                await self._append(place, content)
                self._keep(ts, after)
            else:
                await self._call("chat.stopStream", {**place, **content})
        except SendError as error:
            if not _is_refusal(error):
                if stream and message.is_draft and error.certainty is SendCertainty.NOT_SENT:
                    self._keep(ts, stream)
                raise
            return False
        return after is not None

    async def _append(self, place: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        if content:
            await self._call("chat.appendStream", {**place, **content})

    def _keep(self, ts: str, stream: _Stream) -> None:
        while len(self._open) >= _MOST_OPEN:  # those of runs whose answers other processes send
            del self._open[next(iter(self._open))]
        self._open[ts] = stream


def _recipient(target: Target) -> dict[str, str]:
    """Return the person whom Slack streams to, empty if it is unknown."""
    user, team = target.reference.get("userId"), target.reference.get("teamId")
    return {"recipient_user_id": str(user), "recipient_team_id": str(team)} if user and team else {}


def _is_refusal(error: SendError) -> bool:
    return error.certainty is SendCertainty.REFUSED and not error.ends_account

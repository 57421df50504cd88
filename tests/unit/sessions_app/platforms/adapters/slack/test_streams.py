"""The text that is appended to a streamed message in Slack: never what a later draft may change."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sessions_app.platforms.adapters.slack.streams import Streams
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Chat, Outgoing, Rendered, Target, ToolStatus

TARGET = Target(Chat("C1", "group", "1.0"), reference={"userId": "U1", "teamId": "T1"})


class Slack:
    """A Web API that keeps its calls. error: raised by the next one. now: the time."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.error: SendError | None = None
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.streams = Streams(self.call, lambda: self.now)

    async def call(self, method: str, fields: Mapping[str, Any]) -> Any:
        if self.error:
            error, self.error = self.error, None
            raise error
        self.calls.append((method.removeprefix("chat."), fields))
        return {"ts": "2.0"}

    async def draft(self, text: str, *tools: ToolStatus) -> bool:
        return await self.streams.edit(message(text, *tools), "2.0")

    async def end(self, text: str, kind: str = "answer") -> bool:
        return await self.streams.edit(Outgoing("k", TARGET, Rendered(text, text), kind), "2.0")

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(method, fields.get("markdown_text", "")) for method, fields in self.calls]


def message(text: str, *tools: ToolStatus) -> Outgoing:
    return Outgoing("k", TARGET, Rendered(text, text), is_draft=True, tool_statuses=tools)


@pytest.fixture
def slack() -> Slack:
    return Slack()


async def test_only_what_two_drafts_agree_on_is_appended(slack: Slack) -> None:
    assert await slack.streams.begin(message("a **bo**")) == "2.0"
    assert await slack.draft("a **bold te**") and await slack.draft("a **bold text** and")
    assert await slack.end("a **bold text** and more")
    assert slack.said == [
        ("startStream", ""),
        ("appendStream", "a **bo"),
        ("appendStream", "ld te"),
        ("stopStream", "xt** and more"),
    ]


async def test_a_text_that_was_reset_is_replaced(slack: Slack) -> None:
    await slack.streams.begin(message("one two"))
    assert await slack.draft("one two three")
    assert not await slack.draft("another"), "the message is edited"
    assert slack.said[-1] == ("stopStream", "")
    assert not await slack.draft("another text") and len(slack.calls) == 3


async def test_the_text_before_a_tool_call_stands_above_it(slack: Slack) -> None:
    await slack.streams.begin(message("Let me"))
    await slack.draft("Let me look.", ToolStatus("e1", "web_search"))
    assert slack.calls[-1][1]["chunks"] == [
        {"type": "markdown_text", "text": "Let me look."},
        {"type": "task_update", "id": "e1", "title": "web_search", "status": "in_progress"},
    ]
    await slack.draft("Let me look.", ToolStatus("e1", "web_search", "failed"))
    assert [task["status"] for task in slack.calls[-1][1]["chunks"]] == ["error"]


@pytest.mark.parametrize(("kind", "status"), [("answer", "complete"), ("failure", "error")])
async def test_no_tool_call_runs_after_the_end(slack: Slack, kind: str, status: str) -> None:
    await slack.streams.begin(message("", ToolStatus("e1", "web_search")))
    assert await slack.end("Done.", kind)
    assert [chunk.get("status") for chunk in slack.calls[-1][1]["chunks"]] == [None, status]


async def test_a_stream_is_ended_before_slack_ends_it(slack: Slack) -> None:
    await slack.streams.begin(message("one"))
    slack.now += timedelta(minutes=4)
    assert await slack.draft("one two")
    assert slack.said[-1] == ("stopStream", "one") and not await slack.draft("one two three")


async def test_nothing_is_appended_twice(slack: Slack) -> None:
    await slack.streams.begin(message("one"))
    slack.error = SendError("Slack: ratelimited", SendCertainty.NOT_SENT)
    with pytest.raises(SendError):
        await slack.draft("one two")
    assert await slack.draft("one two") and slack.said[-1] == ("appendStream", "one")
    slack.error = SendError("no response", SendCertainty.UNKNOWN)
    with pytest.raises(SendError):
        await slack.end("one two three")
    slack.error = SendError("Slack: message_not_in_streaming_state", SendCertainty.REFUSED)
    assert not await slack.end("one two three"), "the message is edited"
    assert len(slack.calls) == 2


async def test_a_channel_without_a_recipient_is_not_streamed_to(slack: Slack) -> None:
    assert await slack.streams.begin(Outgoing("k", Target(TARGET.chat), Rendered("a", "a"), is_draft=True)) == ""
    assert not slack.calls

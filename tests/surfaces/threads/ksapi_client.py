"""The generated `ksapi` client, with its stream read line by line as its users do."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import ksapi

Event = tuple[str, str, Any]


class Client:
    """The APIs of the generated client, and the stream as events."""

    def __init__(self, url: str, **credentials: Any) -> None:
        self.api = ksapi.ApiClient(ksapi.Configuration(host=url, **credentials))
        self.threads = ksapi.ThreadsApi(self.api)
        self.messages = ksapi.ThreadMessagesApi(self.api)
        self.jobs = ksapi.SystemJobsApi(self.api)
        self.agent = ksapi.AgentApi(self.api)
        self.feedback = ksapi.FeedbackApi(self.api)
        self.keys = ksapi.ApiKeysApi(self.api)

    def open(self, title: str = "Test") -> Any:
        return self.threads.create_thread(ksapi.CreateThreadRequest(title=title))

    def send(self, thread: Any, text: str, **headers: str) -> Any:
        request = ksapi.UserMessageRequest(input_text=text)
        return self.threads.send_user_message(thread.id, request, _headers=headers or None)

    def stream(
        self, thread: Any, *, until: int = 0, meanwhile: Callable[[], None] | None = None, **resume: Any
    ) -> list[Event]:
        """Return at most `until` events, else those to [DONE] or the end. meanwhile: called after the first."""
        answer = self.threads.stream_thread_without_preload_content(thread.id, **resume, _request_timeout=30)
        assert answer.status == 200, answer.data
        events: list[Event] = []
        for event in read_events(line.decode() for line in answer):
            events.append(event)
            if meanwhile and len(events) == 1:
                meanwhile()
            if event[2] == "[DONE]" or len(events) == until:
                break
        answer.close()
        return events


def read_events(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for chunk in lines:
        for line in chunk.splitlines() or [""]:
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif not line and fields:
                data = fields.get("data", "")
                yield fields.get("id", ""), fields.get("event", ""), data if data == "[DONE]" else json.loads(data)
                fields = {}


def names(events: list[Event]) -> list[str]:
    """Return the names of events in order, without repetitions."""
    found = [name or data for _, name, data in events]
    return [name for place, name in enumerate(found) if place == 0 or found[place - 1] != name]


def text_of(events: list[Event]) -> str:
    """Return the text that a client shows which supports `restarted`."""
    parts: dict[str, str] = {}
    for _, name, data in events:
        if name == "text_start":
            parts[data["part_id"]] = ""
        elif name == "text_delta":
            parts[data["part_id"]] = parts.get(data["part_id"], "") + data["delta"]
    return "\n\n".join(parts.values())

"""Times the projection of each surface: from a piece of live text to the bytes that are sent.

A separate program, because it needs Django: `python -m benchmarks.encoder_cost ROUNDS` on a gateway's data folder,
which it does not change. Prints JSON: CPU microseconds a token, by surface.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import uuid4

import django

django.setup()

# Only after Django is set up: these modules name models.
from agents_app.types import RunOptions  # noqa: E402
from audit_app.kernel.json_text import as_json  # noqa: E402
from sessions_app.live_view.cursor import SessionEvent  # noqa: E402
from sessions_app.surfaces.a2a.projection import TaskUpdates  # noqa: E402
from sessions_app.surfaces.ag_ui.projection import RunEvents  # noqa: E402
from sessions_app.surfaces.ag_ui.requests import read_request  # noqa: E402
from sessions_app.surfaces.agent_messages.streaming_chunks import LiveText  # noqa: E402
from sessions_app.surfaces.base.live_text import LiveTexts  # noqa: E402
from sessions_app.surfaces.chat.fragments import frame_of  # noqa: E402
from sessions_app.surfaces.chat.projection import Projection  # noqa: E402
from sessions_app.surfaces.openai.projection_completions import Completion  # noqa: E402
from sessions_app.surfaces.openai.projection_responses import ResponseEvents  # noqa: E402
from sessions_app.surfaces.openai.responses import ResponseContext  # noqa: E402
from sessions_app.surfaces.signalr import protocol  # noqa: E402
from sessions_app.surfaces.signalr.projection import HubProjection  # noqa: E402
from sessions_app.surfaces.threads.projection import MessageEvents, lines_of  # noqa: E402
from sessions_app.surfaces.webchat.projection import page_event  # noqa: E402
from sessions_app.surfaces.webchat.queries import Details  # noqa: E402
from sessions_app.surfaces.webchat.rendered_steps import RenderedSteps  # noqa: E402
from sessions_app.surfaces.zeroclaw.chat_frames import ChatFrames  # noqa: E402

Encoder = Callable[[SessionEvent], bytes]

_TOKENS = 150
# Tokens of the fake model, and a Markdown answer in pieces of about a word.
_PLAIN = tuple(f"@{number + 1_000_000} " for number in range(_TOKENS))
_MARKDOWN = tuple(
    ("Here **is** `what` I found:\n\n* a first point\n* and a second\n\n```python\nx = 1\n```\n\n" * 6).split(" ")
)
_SESSION, _RUN = uuid4(), uuid4()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chat_page() -> Encoder:
    projection = Projection(LiveTexts())
    return lambda event: _json(
        {"cursor": "7", "acts": [frame_of(update) for update in projection.updates([event])]}  # type: ignore[arg-type]
    ).encode()


def hub() -> Encoder:
    projection = HubProjection("WebChat:default:1", "default")
    return lambda event: protocol.frame(
        *(protocol.invocation(target, *arguments) for target, arguments in projection.calls(event))
    ).encode()


def threads() -> Encoder:
    message = MessageEvents(_RUN, 1, lambda: datetime.now(UTC))
    return lambda event: lines_of(message.see(event)).encode()


def agent_runs() -> Encoder:
    live = LiveText()
    return lambda event: "".join(
        f"id: {chunk['ts']}\ndata: {as_json(chunk)}\n\n" for chunk in live.chunks(event, 1_772_357_400_000)
    ).encode()


def completions() -> Encoder:
    completion = Completion(_RUN, "default", 1_772_357_400)
    return lambda event: "".join(f"data: {_json(chunk)}\n\n" for chunk in completion.see(event)).encode()


def responses() -> Encoder:
    events = ResponseEvents(ResponseContext(_RUN, "default", 1_772_357_400, RunOptions()))
    return lambda event: "".join(
        f"event: {sent['type']}\ndata: {_json(sent)}\n\n" for sent in events.see(event)
    ).encode()


def ag_ui() -> Encoder:
    message = {"id": "1", "role": "user", "content": "hello"}
    run = RunEvents(_RUN, read_request({"threadId": "1", "runId": "1", "messages": [message]}), may_decide=True)
    return lambda event: "".join(f"data: {_json(sent)}\n\n" for sent in run.see(event)).encode()


def a2a() -> Encoder:
    task = TaskUpdates(_RUN, "1")
    return lambda event: "".join(f"data: {_json(sent)}\n\n" for sent in task.see(event)).encode()


def zeroclaw() -> Encoder:
    frames = ChatFrames()
    return lambda event: "".join(json.dumps(frame, ensure_ascii=False) for frame in frames.see(event)).encode()


def web_chat() -> Encoder:
    details, steps = Details(), RenderedSteps()

    def encode(event: SessionEvent) -> bytes:
        sent = page_event(event, details, steps)
        return f"event: {sent.name}\ndata: {sent.text}\n\n".encode() if sent else b""

    return encode


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "chat page": chat_page,
    "hub": hub,
    "threads": threads,
    "agent runs": agent_runs,
    "completions": completions,
    "responses": responses,
    "AG-UI": ag_ui,
    "A2A": a2a,
    "ZeroClaw chat": zeroclaw,
    "web chat": web_chat,
}


def events_of(pieces: tuple[str, ...]) -> Iterator[SessionEvent]:
    """Yield the pieces as events of a viewer."""
    offset = 0
    for number, piece in enumerate(pieces):
        payload = {"offset": offset, "text": piece}
        yield SessionEvent("text.delta", _SESSION, _RUN, 0, payload, f"7.1-{number + 1}")
        offset += len(piece)


def cost_us(make: Callable[[], Encoder], pieces: tuple[str, ...], rounds: int) -> float:
    """Return the median over the rounds, each of one whole answer."""
    events, spent = list(events_of(pieces)), []
    for _ in range(rounds):
        encode = make()
        begun = time.process_time_ns()
        sent = [encode(event) for event in events]
        spent.append((time.process_time_ns() - begun) / 1000 / len(events))
        if not all(sent):
            raise AssertionError(f"{make.__name__} returns nothing for a piece of text")
    return statistics.median(spent)


if __name__ == "__main__":
    rounds = int(sys.argv[1])
    costs = {name: cost_us(make, _PLAIN, rounds) for name, make in ENCODERS.items()}
    markdown = {f"{name}, Markdown": cost_us(ENCODERS[name], _MARKDOWN, rounds) for name in ("chat page", "web chat")}
    print(json.dumps({**costs, **markdown}))

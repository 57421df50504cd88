"""Pictures in the results of tools as parts of messages. Pure.

They are parts of the result's own message, which some protocols can carry. For the others they stand apart, in a
message of the user behind the results of a step, between the markers of tool output.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agents_app.prompt import tool_output_markers
from agents_app.types import Message, MessagePart
from tools_app.types import ExecutionView

REFERENCE = "artifact:"  # begins the reference of a part that is a file of the session, not of a message
_NOT_IN_A_TITLE = re.compile(r"[^\w ./()-]")


def parts_of(execution: ExecutionView) -> tuple[MessagePart, ...]:
    """Return the pictures of a result."""
    return tuple(
        MessagePart(
            "image",
            picture.media_type,
            picture.path,
            picture.size_bytes,
            f"{REFERENCE}{picture.artifact_id}:{picture.sha256}",
            _NOT_IN_A_TITLE.sub("_", f"Picture {picture.path} of the tool {execution.tool} ({picture.media_type})"),
        )
        for picture in execution.pictures
    )


def apart(messages: Sequence[Message], sign: str) -> Iterator[Message]:
    """Yield the messages with the parts of tool results in messages of their own. sign: of the conversation."""
    waiting: list[MessagePart] = []
    for message in messages:
        if message.role != "tool" and waiting:
            yield _shown(waiting, sign)
            waiting = []
        waiting += message.parts if message.role == "tool" else ()
        yield replace(message, parts=()) if message.role == "tool" and message.parts else message
    if waiting:
        yield _shown(waiting, sign)


def _shown(parts: Iterable[MessagePart], sign: str) -> Message:
    """Return the message. Its text has the notes of the parts, which titles replace when they are sent."""
    several = tuple(parts)
    return Message("user", tool_output_markers.enclosed("\n".join(part.note for part in several), sign), parts=several)

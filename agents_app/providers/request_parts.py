"""The parts of a request: which of them the model gets, and the text that stands for the others. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agents_app.providers.accepts import Accepts
from agents_app.types import Message, MessagePart, OmittedPart

_TOO_MANY = "the model takes at most {most} files"


def select(messages: Sequence[Message], accepts: Accepts) -> tuple[tuple[Message, ...], tuple[OmittedPart, ...]]:
    """Return the messages with those parts that the model takes, and the parts that are left out.

    The text of a message gives the reason for each part that is left out. The newest parts are kept.
    """
    if not any(message.parts for message in messages):
        return tuple(messages), ()
    taken = [part for message in messages for part in message.parts if not accepts.objection(part)]
    kept = {id(part) for part in taken[-accepts.most_parts :]}

    def objection(part: MessagePart) -> str:
        too_many = "" if id(part) in kept else _TOO_MANY.format(most=accepts.most_parts)
        return accepts.objection(part) or too_many

    return omit(messages, objection)


def omit(
    messages: Sequence[Message], objection: Callable[[MessagePart], str]
) -> tuple[tuple[Message, ...], tuple[OmittedPart, ...]]:
    """Return the messages without the parts to which there is an objection, and those parts with it.

    A part for which its text stands is not among them: the model gets that.
    objection: returns the reason why a part is left out, or an empty text.
    """
    omitted: list[OmittedPart] = []
    changed = []
    for message in messages:
        reasons = [(part, objection(part)) for part in message.parts]
        for part, reason in reasons:
            if reason:
                message = replace(message, content=_replaced(message.content, part.note, part.note_with(reason)))
                if not part.text:
                    omitted.append(OmittedPart(part.reference, part.name or part.kind, reason))
        kept = tuple(part for part, reason in reasons if not reason)
        changed.append(replace(message, parts=kept) if message.parts else message)
    return tuple(changed), tuple(omitted)


def name_sent(message: Message) -> Message:
    """Return the message with the titles of its parts in place of their notes: the model gets these parts."""
    content = message.content
    for part in message.parts:
        content = _replaced(content, part.note, f"[{part.title}]")
    return replace(message, content=content)


def _replaced(content: str, note: str, text: str) -> str:
    if note in content:
        return content.replace(note, text, 1)
    return f"{content}\n\n{text}" if content else text

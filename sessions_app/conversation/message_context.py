"""The context of a message: its author in a group, and texts of others that belong to it, as a turn in front of it.

It is data for the model, never a part of what the author says. A later message may not change it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from agents_app.types import Message
from audit_app.kernel.shorten import shorten
from sessions_app.models import Turn

LONGEST_TEXT = 4000
LONGEST_OWN = 300  # of a quoted text that the conversation has already
AUTHOR = "Author of the message: "  # the last line, in groups
FORWARDED = "(a forwarded message)"  # stands for its text, which is in the context


@dataclass(frozen=True)
class MessageContext:
    """The context of a message. is_foreign: it has texts that the author of the message has not written."""

    text: str
    is_foreign: bool

    def turn_before(self, turn: Turn) -> Turn:
        """Return the unsaved turn with the context, in the place of a user turn, whose part becomes the next one."""
        context = Turn(
            session=turn.session,
            run=turn.run,
            ordinal=turn.ordinal,
            branch=turn.branch,
            part=turn.part,
            role="others" if self.is_foreign else "author",
            attached=self.text,
            created_at=turn.created_at,
        )
        turn.part += 1
        return context


def name_author(run_id: UUID, sender_id: str, name: str) -> None:
    """Replace the id of an author in the contexts of a run by a name. Idempotent."""
    rows = Turn.objects.filter(run_id=run_id, role__in=Turn.CONTEXT_ROLES, attached__endswith=f"{AUTHOR}{sender_id}")
    for turn in rows:
        Turn.objects.filter(pk=turn.pk).update(attached=f"{turn.attached.removesuffix(sender_id)}{name}")


def quoted_lines(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text with a sign in front of each line, so that none of them looks like a line of the context."""
    return "\n".join(f"> {line}" for line in shorten(text.strip(), longest).splitlines())


def joined(messages: Iterable[Message | str]) -> Iterator[Message]:
    """Yield messages, each with the context that stands as a text in front of it."""
    context = ""
    for message in messages:
        if isinstance(message, str):
            context = message
        else:
            yield replace(message, context=context) if context else message
            context = ""

"""The commands that people write instead of a message, in text channels and on the chat page. Pure."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command.

    about: what it does in a text channel.
    on_page: what it does on the chat page; empty if it does nothing there.
    argument: what may follow it on the page; empty for nothing.
    """

    name: str
    about: str
    on_page: str = ""
    argument: str = ""


COMMANDS = (
    Command("/new", "start a new conversation", "Start a new chat"),
    Command("/stop", "stop the current answer", "Stop the answer"),
    Command("/agent", "show who can answer here, or choose by `/agent NAME`", "Choose who answers", "name"),
    Command(
        "/agents",
        "list the workstreams of an answer; `/agents 2 TEXT` writes to one, `/agents 2 pause` pauses it",
        "Show the workstreams of this chat",
    ),
    Command("/compact", "summarise the earlier messages", "Summarise the earlier messages"),
    Command("/status", "show what I am working on", "Show what the agent does"),
    Command("/link", "link this chat with your user: `/link CODE`"),
    Command("/unlink", "end that"),
    Command("/approve", "allow what an agent asks for, if you are allowed to", "Allow once what the agent asks for"),
    Command("/deny", "deny it: `/deny ID why`", "Deny what the agent asks for", "note to the agent"),
    Command("/help", "show this list", "Show this list"),
)
PAGE_COMMANDS = tuple(command for command in COMMANDS if command.on_page)
HELP = "\n".join(
    [
        "Send me a message and I will answer. Commands:\n",
        *(f"- `{command.name}`: {command.about}" for command in COMMANDS),
    ]
)

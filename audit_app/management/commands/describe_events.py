"""`manage.py describe_events`: all event types as a Markdown page. `docs/events.md` is its output."""

from typing import Any

from django.core.management.base import BaseCommand

from audit_app.event_types import EventType, event_types

_HEAD = """# Events

All types of events. `manage.py describe_events` writes this page from the declarations in each app's `events` module;
a test fails when the two differ.

Each event has the same envelope: `type`, `session_id`, `run_id`, `step`, `actor`, `payload`. A kept event is stored in
the session's timeline with a gapless `seq` and a rising `ts` (milliseconds), as long as the timeline is kept. A live
event is sent once and not replayed: the next kept event holds its outcome. A type with an audit action also writes an
entry of the audit log. Kept events of a child run also have `parent_run_id` and `workstream`.
"""


def page() -> str:
    kept = [event_type for event_type in event_types if event_type.kept]
    live = [event_type for event_type in event_types if not event_type.kept]
    return "\n".join([_HEAD, *_section("Kept events", kept), "", *_section("Live events", live), ""])


def _section(title: str, types: list[EventType[Any]]) -> list[str]:
    head = [f"## {title}", "", "| Type | Payload | Ends the run | Audit action |", "| --- | --- | --- | --- |"]
    return [*head, *(_row(event_type) for event_type in types)]


def _row(event_type: EventType[Any]) -> str:
    fields = "<br>".join(f"`{name}`: {_escaped(meaning)}" for name, meaning in event_type.descriptions().items())
    audit = f"`{event_type.audit}`" if event_type.audit else ""
    return f"| `{event_type.name}` | {fields} | {'yes' if event_type.terminal else ''} | {audit} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


class Command(BaseCommand):
    help = "Print every event type with its payload, as Markdown."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(page(), ending="")

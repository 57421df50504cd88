"""The registry of event types. Each app declares its own in its `events` module; this one knows none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from audit_app.kernel.registry import Registry


@dataclass(frozen=True)
class EventType:
    """name: `noun.past_tense`; fields: payload keys with what they hold; kept: stored in the timeline (else live only);
    terminal: nothing of the run follows; audit: the audit action it also writes, or None; audited_kind: only for events
    of this `kind`, if it is named."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    kept: bool = True
    terminal: bool = False
    audit: str | None = None
    audited_kind: str = ""

    def audit_action(self, payload: Mapping[str, Any]) -> str | None:
        """The audit action that an event with this payload also writes."""
        is_meant = not self.audited_kind or payload.get("kind") == self.audited_kind
        return self.audit if is_meant else None


event_types: Registry[EventType] = Registry("event type", lambda event_type: event_type.name)


def declare(
    name: str,
    *,
    kept: bool = True,
    terminal: bool = False,
    audit: str | None = None,
    audited_kind: str = "",
    **fields: str,
) -> EventType:
    """Declare an event type and return it. fields: payload key = what it holds."""
    return event_types.register(EventType(name, fields, kept, terminal, audit, audited_kind))


@dataclass(frozen=True)
class NewEvent:
    """A kept fact about to be written by `services.emit`.

    session_id: the conversation it belongs to; payload: JSON, keys as declared by the type; actor: `user:7`,
    `agent:default`, `system` (empty: the bound one); agent_id: the public agent id, for the audit entry.
    """

    type: EventType
    session_id: UUID
    payload: dict[str, Any] = field(default_factory=dict)
    run_id: UUID | None = None
    parent_run_id: UUID | None = None
    workstream: str = ""
    step: int | None = None
    actor: str = ""
    agent_id: str = ""
    session_key: str = ""

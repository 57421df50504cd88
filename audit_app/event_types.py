"""The registry of event types. Each app declares its own in its `events` module; this module knows none of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast, get_args, get_type_hints
from uuid import UUID

from audit_app.kernel.registry import Registry

P = TypeVar("P", bound=Mapping[str, Any])
P_co = TypeVar("P_co", bound=Mapping[str, Any], covariant=True)


class HasPayload(Protocol):
    """An event that was read: from the timeline, from a live stream, or by a viewer."""

    @property
    def payload(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class EventType(Generic[P_co]):
    """A declared type of event.

    name: `noun.past_tense`.
    declared: the TypedDict of the payload; each key is `Annotated[type, "description"]`.
    kept: stored in the timeline (else live only).
    terminal: it ends the run; no event of the run's own follows.
    closes_step: it closes the open text of its step; `text_length` of the payload is the length of that text.
    audit: the audit action it also writes, or None.
    audited_kind: write the audit entry only if the payload's `kind` has this value (empty: always).
    """

    name: str
    declared: type[P_co]
    kept: bool = True
    terminal: bool = False
    closes_step: bool = False
    audit: str | None = None
    audited_kind: str = ""

    def audit_action(self, payload: Mapping[str, Any]) -> str | None:
        """Return the audit action that an event with this payload also writes, or None."""
        is_audited = not self.audited_kind or payload.get("kind") == self.audited_kind
        return self.audit if is_audited else None

    def payload(self, event: HasPayload) -> P_co:
        """Return the payload of an event of this type, typed. The caller has compared `event.type`."""
        return cast(P_co, event.payload)

    def descriptions(self) -> dict[str, str]:
        """Return the payload's keys with their descriptions, in the order of the declaration."""
        hints = get_type_hints(self.declared, include_extras=True)
        optional = self.declared.__optional_keys__  # type: ignore[attr-defined]
        return {key: (get_args(hint)[0] if key in optional else hint).__metadata__[0] for key, hint in hints.items()}


event_types: Registry[EventType[Any]] = Registry("event type", lambda event_type: event_type.name)


def declare(
    name: str, payload: type[P], *, audit: str | None = None, audited_kind: str = "", **flags: bool
) -> EventType[P]:
    """Declare an event type and return it; see `EventType` for the arguments. flags: kept, terminal, closes_step."""
    event_type = EventType(name, payload, audit=audit, audited_kind=audited_kind, **flags)
    event_types.register(event_type)
    return event_type


@dataclass(frozen=True)
class NewEvent:
    """An event to be stored by `services.emit`, or sent by `stream.send_passing` if its type is live only.

    payload: JSON, as the type declares it.
    actor: `user:7`, `agent:default`, `system` (empty: the actor bound to the context).
    agent_id: the public agent id, for the audit entry.
    audit_details: further details of the audit entry alone, free of secrets.
    """

    type: EventType[Any]
    session_id: UUID
    payload: Mapping[str, Any]
    run_id: UUID | None = None
    parent_run_id: UUID | None = None
    workstream: str = ""
    step: int | None = None
    actor: str = ""
    agent_id: str = ""
    session_key: str = ""
    audit_details: Mapping[str, Any] = field(default_factory=dict)

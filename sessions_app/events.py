"""The event types of sessions_app."""

from typing import Annotated, Any, NotRequired, TypedDict

from agents_app import events as _agent_events  # noqa: F401 - declares types that STEP_CLOSING needs
from audit_app.event_types import declare, event_types
from tools_app import events as _tool_events  # noqa: F401 - declares types that STEP_CLOSING needs


class SessionCreated(TypedDict):
    channel: Annotated[str, "channel name"]
    agent_id: Annotated[str, "public agent id"]


class SessionBound(TypedDict):
    agent_id: Annotated[str, "public agent id"]
    previous: Annotated[str, "public agent id"]


class SessionRenamed(TypedDict):
    title: Annotated[str, "the new title"]


class MessageReceived(TypedDict):
    turn_id: Annotated[str, "the user turn"]
    message_id: Annotated[str, "the sender's id of the message, or the turn's"]
    note: NotRequired[Annotated[dict[str, Any], "data that the receiving surface stores with the message, if any"]]


class MessageChanged(TypedDict):
    turn_id: Annotated[str, "the user turn whose text is another now, before its run has begun"]


class MessagePinned(TypedDict):
    turn_id: Annotated[str, "the turn"]
    is_pinned: Annotated[bool, "whether later runs read it in full, however old it is"]


class BranchSelected(TypedDict):
    branch: Annotated[int, "number of the branch that is active now; 0 is the first path"]
    place: Annotated[int, "lowest ordinal that is on one of the two paths only"]
    reason: Annotated[str, "edited | regenerated (a message follows, which begins the branch) | selected"]


class UpdatePosted(TypedDict):
    kind: Annotated[int, "number of the message type in the agent-message protocol"]
    text: Annotated[str, "text of the message, or empty"]
    workstream: Annotated[str, "name of the workstream, empty for the main one"]
    details: Annotated[dict[str, Any] | None, "object as that type has it, or null"]


class SignalReceived(TypedDict):
    signal: Annotated[str, "Stop | terminate"]
    ack: Annotated[str, "the client's id of it, or empty"]
    reason: Annotated[str, "why, for people"]


class MessageCompleted(TypedDict):
    turn_id: Annotated[str, "the assistant turn"]
    state: Annotated[str, "complete | partial | error"]
    text_length: Annotated[int, "code points of the last step's text, which this closes"]


class CitationsAdded(TypedDict):
    turn_id: Annotated[str, "the turn whose text cites"]
    citations: Annotated[
        list[dict[str, Any]],
        "[{id, number, uri, title, quote, offset, length, source_offset}] in the order of the markers",
    ]


class AttachmentsOmitted(TypedDict):
    attachments: Annotated[list[dict[str, Any]], "[{id, name, reason}] of the files that the model did not get"]


class MessageTranscribed(TypedDict):
    turn_id: Annotated[str, "the turn that the words belong to"]
    attachment_id: Annotated[str, "the audio file"]
    text_length: Annotated[int, "characters of the transcript"]


class DeliverySent(TypedDict):
    channel: Annotated[str, "slug of the channel"]
    parts: Annotated[int, "number of messages that the answer was sent in"]
    provider_message_ids: Annotated[list[str], "the platform's ids of them"]


class DeliveryFailed(TypedDict):
    channel: Annotated[str, "slug of the channel"]
    code: Annotated[str, "failed | unknown (it may have arrived) | expired"]
    part: Annotated[int, "number of the message within the answer, from 1"]
    parts: Annotated[int, "number of messages that the answer takes"]
    message: Annotated[str, "why, for people"]


SESSION_CREATED = declare("session.created", SessionCreated, audit="SessionCreated")
SESSION_BOUND = declare("session.bound", SessionBound, audit="SessionBound")
SESSION_RENAMED = declare("session.renamed", SessionRenamed)
MESSAGE_RECEIVED = declare("message.received", MessageReceived, audit="MessageReceived")
MESSAGE_CHANGED = declare("message.changed", MessageChanged)
MESSAGE_PINNED = declare("message.pinned", MessagePinned)
BRANCH_SELECTED = declare("branch.selected", BranchSelected, audit="BranchSelected")
UPDATE_POSTED = declare("update.posted", UpdatePosted)
SIGNAL_RECEIVED = declare("signal.received", SignalReceived, audit="SignalReceived")
MESSAGE_COMPLETED = declare("message.completed", MessageCompleted, closes_step=True)
CITATIONS_ADDED = declare("citations.added", CitationsAdded)
ATTACHMENTS_OMITTED = declare("attachments.omitted", AttachmentsOmitted)
MESSAGE_TRANSCRIBED = declare("message.transcribed", MessageTranscribed)
DELIVERY_SENT = declare("delivery.sent", DeliverySent, audit="MessageSent")
DELIVERY_FAILED = declare("delivery.failed", DeliveryFailed, audit="MessageFailed")

# Names of the events, of all apps, that close the open text of a step.
STEP_CLOSING = frozenset(event_type.name for event_type in event_types if event_type.closes_step)

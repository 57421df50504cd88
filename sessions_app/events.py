"""The event types of sessions_app."""

from audit_app.event_types import declare

SESSION_CREATED = declare("session.created", audit="SessionCreated", channel="channel name", agent_id="public agent id")
SESSION_BOUND = declare("session.bound", audit="SessionBound", agent_id="public agent id", previous="public agent id")
SESSION_RENAMED = declare("session.renamed", title="the new title")
MESSAGE_RECEIVED = declare(
    "message.received",
    audit="MessageReceived",
    turn_id="the user's turn",
    message_id="the sender's id of it, or the turn's",
    note="what the surface that took it in keeps beside it, if anything",
)
UPDATE_POSTED = declare(
    "update.posted",
    kind="number of the message type, as the agent-message protocol counts them",
    text="what it says, or empty",
    workstream="name of the workstream, empty for the main one",
    details="object as that type has it, or null",
)
SIGNAL_RECEIVED = declare(
    "signal.received",
    audit="SignalReceived",
    signal="Stop | terminate",
    ack="the client's id of it, or empty",
    reason="why, for people",
)
MESSAGE_COMPLETED = declare(
    "message.completed",
    turn_id="the answer's turn",
    state="complete | partial | error",
    text_length="code points of the last step's text, which this closes",
)
CITATIONS_ADDED = declare(
    "citations.added",
    turn_id="the turn whose text cites",
    citations="[{id, number, uri, title, quote, offset, length, source_offset}] in the order of the markers",
)
DELIVERY_SENT = declare(
    "delivery.sent",
    audit="MessageSent",
    channel="slug of the channel",
    parts="messages that the answer took",
    provider_message_ids="the platform's ids of them",
)
DELIVERY_FAILED = declare(
    "delivery.failed",
    audit="MessageFailed",
    channel="slug of the channel",
    code="failed | unknown (it may have arrived) | expired",
    part="which message of the answer, from 1",
    parts="messages that the answer takes",
    message="why, for people",
)

"""The event types of sessions_app."""

from audit_app.vocabulary import declare

SESSION_CREATED = declare("session.created", audit="SessionCreated", channel="channel name", agent_id="public agent id")
SESSION_BOUND = declare("session.bound", audit="SessionBound", agent_id="public agent id", previous="public agent id")
MESSAGE_RECEIVED = declare(
    "message.received",
    audit="MessageReceived",
    turn_id="the user's turn",
    message_id="the sender's id of it, or the turn's",
)
MESSAGE_COMPLETED = declare(
    "message.completed",
    turn_id="the answer's turn",
    state="complete | partial | error",
    text_length="code points of the last step's text, which this closes",
)

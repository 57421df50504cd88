"""The messages of a run itself: its user turns, its steps and the results of its tools. Pure."""

from collections.abc import Sequence

from agents_app import structured_output
from agents_app.prompt.tool_pictures import parts_of
from agents_app.types import Message, Snapshot


def own_messages(snapshot: Snapshot) -> Sequence[Message]:
    """Return the messages of this run so far, with each user turn before the step that first answered it.

    Memories come first: in front of the history they would keep model servers from caching it.
    """
    recalled = Message("user", snapshot.recalled, is_recalled=True)
    messages: list[Message] = [recalled] if snapshot.recalled else []
    user_turns = snapshot.user_turns
    shown = 0
    for step in snapshot.steps:
        messages += user_turns[shown : step.turns_seen]
        shown = step.turns_seen
        content, state = step.rejected_text or step.text, step.dialect_state
        messages.append(Message("assistant", content, step.tool_calls, reasoning=step.reasoning, dialect_state=state))
        if step.rejected_text:
            correction = structured_output.repair_message(step.rejected_text, snapshot.output_schema)
            messages.append(Message("user", correction))
        messages += [
            Message(
                "tool",
                execution.text_for_model,
                tool_call_id=execution.call_id,
                parts=parts_of(execution) if execution.pictures else (),
            )
            for execution in snapshot.executions
            if execution.step == step.index
        ]
    return [*messages, *user_turns[shown:]]

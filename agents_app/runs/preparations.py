"""The beginning of the call that a step demands before the next model call."""

from agents_app.runs import compaction_step, transcription_step
from agents_app.runs.lease import Claim
from agents_app.runs.next_step import Compact, Transcribe
from agents_app.runs.preparation import Preparation
from agents_app.types import Snapshot


def begin(claim: Claim, snapshot: Snapshot, step: Compact | Transcribe) -> Preparation:
    """Return the call to make. Does not block, and connects to nothing yet."""
    if isinstance(step, Compact):
        return compaction_step.begin(claim, snapshot, step)
    return transcription_step.begin(claim, snapshot, step)

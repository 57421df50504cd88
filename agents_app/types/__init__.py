"""Values of the runs, one module per subject. Pure."""

from agents_app.types.context import ContextOverflow, ContextSize, Limits
from agents_app.types.message_parts import LoadedPart, MessagePart, OmittedPart, VoiceNotes
from agents_app.types.model_calls import (
    Message,
    ModelChunk,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from agents_app.types.run_options import RunOptions
from agents_app.types.runs import REJECTED, RunStatus, RunTranscript, RunView, Snapshot, StepView, WaitingOn

__all__ = [
    "ContextOverflow",
    "ContextSize",
    "Limits",
    "LoadedPart",
    "Message",
    "MessagePart",
    "ModelChunk",
    "ModelRequest",
    "ModelResponse",
    "OmittedPart",
    "REJECTED",
    "ReasoningDelta",
    "RunOptions",
    "RunStatus",
    "RunTranscript",
    "RunView",
    "Snapshot",
    "StepView",
    "TextDelta",
    "Usage",
    "VoiceNotes",
    "WaitingOn",
]

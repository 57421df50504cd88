"""The voice notes of a claimed run that are to be transcribed. Reads only."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from agents_app import conversation_port
from agents_app.models import ModelProvider, Run
from agents_app.providers import registry
from agents_app.providers.accepts import NOTHING
from agents_app.providers.base import ProviderError
from agents_app.runs.run_policy import model_of
from agents_app.types import Message
from agents_app.types.message_parts import VoiceNote, VoiceNotes

DEFAULT_MODEL = "whisper-1"
_LONGEST_NAME = 200  # of a model, as stored with a step


def find(run: Run, user_turns: Sequence[Message], provider: ModelProvider) -> VoiceNotes:
    """Return the voice notes of a run. provider: of the run; a model that takes audio gets the audio itself."""
    if not any(part.kind == "audio" for message in user_turns for part in message.parts):
        return VoiceNotes()
    found, accepts = conversation_port.get().voice_notes(run.id), NOTHING
    with suppress(ProviderError):  # the model call reports it
        accepts = registry.open_provider(provider).accepts(model_of(run, provider))
    pending = [note for note in found.pending if note.is_chosen or provider.transcription_model]
    return replace(found, pending=tuple(note for note in pending if accepts.objection(note.part)))


def transcriber_of(note: VoiceNote, provider: ModelProvider) -> ModelProvider:
    """Return the provider that transcribes a note; an unsaved placeholder if it was deleted."""
    if note.provider in ("", provider.name):
        return provider
    return ModelProvider.objects.filter(name=note.provider).first() or ModelProvider(name=note.provider)


def model_for(note: VoiceNote, transcriber: ModelProvider) -> str:
    return (note.model or transcriber.transcription_model or DEFAULT_MODEL)[:_LONGEST_NAME]

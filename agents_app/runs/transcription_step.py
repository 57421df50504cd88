"""Transcription of a claimed run's voice notes: the call, and recording its text with the message."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from django.conf import settings
from django.db import transaction

from agents_app import conversation_port, selectors
from agents_app.costs import usage_ledger
from agents_app.costs.usage_ledger import CallCost
from agents_app.models import ModelProvider, Run, Step
from agents_app.providers import registry
from agents_app.providers.accepts import NOTHING, Accepts, UnusablePartError
from agents_app.providers.base import Provider, ProviderError
from agents_app.runs import part_loader, preparation, writes
from agents_app.runs.audio_length import MOST_BYTES, objection
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import Transcribe
from agents_app.runs.preparation import Preparation
from agents_app.runs.run_policy import model_of
from agents_app.runs.writes import Recorded, Spent
from agents_app.types import ModelChunk, ModelResponse, Snapshot
from agents_app.types.message_parts import LoadedPart, MessagePart, Transcript, VoiceNote, VoiceNotes
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError

_LIMITS = Accepts(most_bytes=MOST_BYTES)
_SILENT = "no words were found in it"
_DEFAULT_MODEL = "whisper-1"
_LONGEST_NAME = 200  # of a model, as stored with a step


def find(run: Run, provider: ModelProvider) -> VoiceNotes:
    """Return the voice notes of a run. provider: of the run; a model that takes audio gets the audio itself."""
    found, accepts = conversation_port.get().voice_notes(run.id), NOTHING
    with suppress(ProviderError):  # the model call reports it
        accepts = registry.open_provider(provider).accepts(model_of(run, provider))
    pending = [note for note in found.pending if note.is_chosen or provider.transcription_model]
    return replace(found, pending=tuple(note for note in pending if accepts.objection(note.part)))


def begin(claim: Claim, snapshot: Snapshot, step: Transcribe) -> Preparation:
    """Return the call that transcribes a voice note, of the run's provider or the one that the account has chosen."""
    chunks = _transcribe(claim.provider, step.note, snapshot.limits.call_seconds)
    return Preparation(chunks, partial(_record, claim, snapshot, step.note), is_retried=True)


async def _transcribe(run_provider: ModelProvider, note: VoiceNote, seconds: float) -> AsyncGenerator[ModelChunk, None]:
    """Yield the transcription as a whole response. Raises ProviderError."""
    transcriber, provider = await in_db(_open, note, run_provider)
    audio = await _load(note.part)
    yield await provider.transcribe(audio, model=_model_for(note, transcriber), seconds=seconds)


def _open(note: VoiceNote, run_provider: ModelProvider) -> tuple[ModelProvider, Provider]:
    row = _transcriber_of(note, run_provider)
    return row, registry.open_provider(row)


async def _load(part: MessagePart) -> LoadedPart:
    """Return the part with its bytes. Raises ProviderError if it is gone, too large or too long."""
    if part.size_bytes > MOST_BYTES:
        raise _unusable(f"it has more than {MOST_BYTES / 1_000_000:.0f} MB")
    try:
        audio = await part_loader.load(part, _LIMITS)
    except UnusablePartError as error:
        raise _unusable(str(error)) from None
    if reason := objection(audio.data, settings.KOMAND_VOICE_SECONDS):
        raise _unusable(reason)
    return audio


def _unusable(reason: str) -> ProviderError:
    return ProviderError(reason, code="model_bad_request")


def _record(
    claim: Claim, snapshot: Snapshot, note: VoiceNote, response: ModelResponse, spent: Spent, error: AppError | None
) -> tuple[Claim, Snapshot | None]:
    """Record a transcription, or its failure: then the run continues with the rest of its messages."""
    run, text = claim.run, response.text.strip()
    failure = error.message.rstrip(".") if error else "" if text else _SILENT
    response = replace(response, text=text)
    with transaction.atomic():
        place = Recorded(-1 - snapshot.preparations, Step.TRANSCRIBE, _cost_of(claim, note, response))
        writes.record_step(claim, snapshot, place, response, spent)
        transcript = Transcript(note.part.reference, text, failure)
        new_events = conversation_port.get().store_transcript(run.id, transcript)
        following = preparation.following(claim, snapshot, spent)
        found = find(run, claim.provider)
        return claim, writes.decide_and_apply(claim, replace(following, voice=found), new_events=new_events)


def _cost_of(claim: Claim, note: VoiceNote, response: ModelResponse) -> CallCost:
    """Return the cost of the call. Servers that report seconds instead of tokens are counted without tokens."""
    transcriber = _transcriber_of(note, claim.provider)
    prices = selectors.price_list(transcriber)
    model = _model_for(note, transcriber)
    return usage_ledger.price_call(transcriber.name, model, prices, response.usage, text=response.text)


def _transcriber_of(note: VoiceNote, provider: ModelProvider) -> ModelProvider:
    """Return the provider that transcribes a note; an unsaved placeholder if it was deleted."""
    if note.provider in ("", provider.name):
        return provider
    return ModelProvider.objects.filter(name=note.provider).first() or ModelProvider(name=note.provider)


def _model_for(note: VoiceNote, transcriber: ModelProvider) -> str:
    return (note.model or transcriber.transcription_model or _DEFAULT_MODEL)[:_LONGEST_NAME]

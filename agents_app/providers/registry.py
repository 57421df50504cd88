"""The kinds of model providers by dotted path, and the open providers of this process.

The module of a provider, with its SDK, is imported on first use: processes that call no model never load it.
"""

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from agents_app.models import ModelProvider
from agents_app.providers.accepts import chosen_kinds
from agents_app.providers.base import ModelUnavailable, Provider, ProviderError
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from audit_app.kernel.registry import Registry
from tools_app.secrets import credentials, vault


@dataclass(frozen=True)
class _Kind:
    name: str
    path: str


_kinds: Registry[_Kind] = Registry("kind of model provider", lambda kind: kind.name)
_open: dict[Any, tuple[datetime, Provider]] = {}
_replaced: list[Provider] = []
_lock = threading.Lock()


def register(kind: str, path: str) -> None:
    """Register a kind. path: dotted path of its Provider class, which is not imported here."""
    _kinds.register(_Kind(kind, path))


def kinds() -> tuple[str, ...]:
    return _kinds.names()


def load(kind: str) -> type[Provider]:
    """Return the class of a kind. The first call imports it, which takes a second. Raises NotFound."""
    provider_class: type[Provider] = import_string(_kinds.get(kind).path)
    return provider_class


def open_provider(row: ModelProvider) -> Provider:
    """Return the provider of a row, shared by all calls of this process until the row is saved again.

    Must be called with `in_db`: the first use of a kind imports its SDK, and a key may be a credential in the database.
    Raises ProviderError if the row cannot be used: disabled, unknown kind, unreadable key.
    """
    with _lock:
        opened = _open.get(row.pk)
        if opened and opened[0] == row.updated_at:
            return opened[1]
        provider = build(row)
        if opened:
            # It may still be streaming: it is closed with the process, its idle connections earlier.
            _replaced.append(opened[1])
        _open[row.pk] = (row.updated_at, provider)
        return provider


def find_open(row: ModelProvider) -> Provider | None:
    """Return the provider of a row if it is open. Does not block."""
    opened = _open.get(row.pk)
    return opened[1] if opened and opened[0] == row.updated_at else None


async def opened(row: ModelProvider) -> Provider:
    """Return what `open_provider` does. Usually it is open already: `in_db` would queue behind writes of other runs."""
    provider = find_open(row)
    return provider if provider else await in_db(open_provider, row)


async def aclose_all() -> None:
    """Close all open providers, on the event loop that used them, after the last call."""
    with _lock:
        providers = [*_replaced, *(provider for _, provider in _open.values())]
        _replaced.clear()
        _open.clear()
    for provider in providers:
        await provider.aclose()


def build(row: ModelProvider) -> Provider:
    """Return a new provider of a row, which the caller closes. Raises what `open_provider` raises."""
    if not row.kind:  # of a fallback that named it
        raise ModelUnavailable(f"There is no model provider {row.name!r} any more.", code="model_bad_request")
    if not row.is_enabled:
        message = f"The model provider {row.name!r} is disabled. Choose another one."
        raise ModelUnavailable(message, code="model_bad_request")
    try:
        provider_class = load(row.kind)
    except AppError as error:
        message = f"The model provider {row.name!r} cannot be used. {error.message}"
        raise ModelUnavailable(message, code="model_bad_request") from error
    provider = provider_class(base_url=row.base_url, api_key=_key_of(row), default_model=row.default_model)
    provider.chosen_parts = chosen_kinds(row.accepted_parts)
    provider.inline_reasoning = row.inline_reasoning
    return provider


def _key_of(row: ModelProvider) -> str:
    if not row.api_key_sealed:
        return ""
    try:
        stored = vault.unseal(row.api_key_sealed)
    except AppError as error:
        message = f"The stored key of the model provider {row.name!r} cannot be read. Enter it again in the admin."
        raise ProviderError(message, code="model_auth") from error
    try:
        return credentials.resolve_references(stored, owner_id=None, purpose=f"model provider {row.name}")
    except AppError as error:
        message = f"The model provider {row.name!r} cannot use its credential. {error.message}"
        raise ProviderError(message, code="model_auth") from error


def credential_changed(name: str, owner_id: int | None) -> None:
    """Make every process reopen the providers that use this credential as their key, at their next use."""
    if owner_id is None:
        for row in ModelProvider.objects.exclude(api_key_sealed=""):
            if name in _references(row):
                ModelProvider.objects.filter(pk=row.pk).update(updated_at=timezone.now())


def _references(row: ModelProvider) -> tuple[str, ...]:
    try:
        return credentials.find_references(vault.unseal(row.api_key_sealed))
    except AppError:
        return ()

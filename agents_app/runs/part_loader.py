"""Model calls with the parts of their messages: loads and scales them, and repeats a call that the server refuses.

Bytes are loaded off the event loop. What was prepared last is kept, because each step of a run sends it again.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from agents_app import conversation_port
from agents_app.providers import request_parts
from agents_app.providers.accepts import Accepts, UnusablePartError
from agents_app.providers.base import Provider, ProviderError
from agents_app.types import LoadedPart, Message, MessagePart, ModelChunk, ModelRequest, ModelResponse
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, Unavailable

logger = logging.getLogger(__name__)

_MOST_KEPT_BYTES = 32_000_000
_MOST_REFUSED = 1_000
_REFUSED = "the model's server refuses it"
_TOO_LARGE = "the files of the conversation are too large together"
_GONE = "it is no longer stored as it was sent"
# Some servers answer with 500 to a part that their model does not take.
_ABOUT_PARTS = re.compile(r"image|audio|multimodal|vision|modalit|content (type|part)", re.IGNORECASE)
_IMAGES = "agents_app.providers.images"  # imports Pillow

_kept: "OrderedDict[tuple[Any, ...], LoadedPart]" = OrderedDict()
_refused: "OrderedDict[tuple[str, str, str], None]" = OrderedDict()  # (server, model, reference)
# One at a time: a decoded image may take some hundred megabytes.
_scaling = ThreadPoolExecutor(max_workers=1, thread_name_prefix="images")


@dataclass(frozen=True)
class _Loaded:
    """The parts of a request by reference: those to send, and the reasons why the others are not sent."""

    parts: Mapping[str, LoadedPart]
    problems: Mapping[str, str]

    def refused(self) -> "_Loaded":
        return _Loaded({}, {**self.problems, **dict.fromkeys(self.parts, _REFUSED)})

    def apply(self, request: ModelRequest) -> ModelRequest:
        """Return the request with these parts. Texts name those that are sent, and describe the others."""
        messages, omitted = request_parts.omit(request.messages, lambda part: self.problems.get(part.reference, ""))
        return replace(request, messages=tuple(map(self._named, messages)), omitted=(*request.omitted, *omitted))

    def _named(self, message: Message) -> Message:
        parts = tuple(self.parts[part.reference] for part in message.parts)
        return replace(request_parts.name_sent(message), parts=parts)


async def stream(provider: Provider, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    """Call the model as `provider.stream` does, with the request's parts loaded.

    A part that cannot be sent is described in its message instead, and is in `omitted` of the response.
    """
    found, has_begun = await _load(provider, request), False
    try:
        async with aclosing(_call(provider, found.apply(request))) as chunks:
            async for chunk in chunks:
                has_begun = True
                yield chunk
        return
    except ProviderError as error:
        if has_begun or not found.parts or not _is_refusal(error):
            raise
        logger.warning("a model call is repeated without its %d files: %s", len(found.parts), error.message)
    async with aclosing(_call(provider, found.refused().apply(request))) as chunks:
        async for chunk in chunks:
            if not has_begun:
                has_begun = True
                _remember_refusal(provider, request.model, found.parts)
            yield chunk


async def _call(provider: Provider, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    async with aclosing(provider.stream(request)) as chunks:
        async for chunk in chunks:
            yield replace(chunk, omitted=request.omitted) if isinstance(chunk, ModelResponse) else chunk


async def _load(provider: Provider, request: ModelRequest) -> _Loaded:
    """Load the parts, the newest first, until they are too large together."""
    accepts = provider.accepts(request.model)
    left = accepts.most_bytes_together
    parts: dict[str, LoadedPart] = {}
    problems: dict[str, str] = {}
    for part in reversed([part for message in request.messages for part in message.parts]):
        try:
            if (provider.base_url, request.model, part.reference) in _refused:
                raise UnusablePartError(_REFUSED)
            loaded = await _prepare(part, accepts)
            if len(loaded.data) > left:
                raise UnusablePartError(_TOO_LARGE)
        except UnusablePartError as error:
            problems[part.reference] = str(error)
        else:
            left -= len(loaded.data)
            parts[part.reference] = loaded
    return _Loaded(parts, problems)


async def _prepare(part: MessagePart, accepts: Accepts) -> LoadedPart:
    """Return what `load` does, and keep it for the next calls."""
    key = (part.reference, accepts.longest_side, accepts.most_bytes, accepts.types.get(part.kind))
    if kept := _kept.get(key):
        _kept.move_to_end(key)
        return kept
    _kept[key] = loaded = await load(part, accepts)
    while sum(len(one.data) for one in _kept.values()) > _MOST_KEPT_BYTES:
        _kept.popitem(last=False)
    return loaded


async def load(part: MessagePart, accepts: Accepts) -> LoadedPart:
    """Return the part with its bytes, scaled if it has to be. Raises UnusablePartError.

    Raises ProviderError if files cannot be read just now: the call is repeated, since without the file the answer would
    be another one.
    """
    try:
        data = await in_db(conversation_port.get().load_part, part.reference)
    except Unavailable as error:
        raise ProviderError(error.message, code="model_unreachable") from error
    except AppError:
        raise UnusablePartError(_GONE) from None
    mime_type = part.mime_type
    if part.kind == "image":
        images = await asyncio.to_thread(import_module, _IMAGES)
        mime_type, data = await asyncio.get_running_loop().run_in_executor(_scaling, images.prepare, data, accepts)
    return LoadedPart(**{**vars(part), "mime_type": mime_type}, data=data)


def _is_refusal(error: ProviderError) -> bool:
    """Return whether the parts may be the reason: servers have no code of their own for it."""
    about_parts = error.code == "model_error" and _ABOUT_PARTS.search(error.message)
    return error.code == "model_bad_request" or bool(about_parts)


def _remember_refusal(provider: Provider, model: str, references: Iterable[str]) -> None:
    """Leave these parts out of later calls of this process: each would be refused first."""
    for reference in references:
        _refused[provider.base_url, model, reference] = None
    while len(_refused) > _MOST_REFUSED:
        _refused.popitem(last=False)

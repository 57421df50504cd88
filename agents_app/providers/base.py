"""What a model provider is and how it fails. Every provider passes tests/contract/test_providers.py."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import ClassVar

from agents_app.types import ModelChunk, ModelRequest
from audit_app.kernel.errors import AppError

RETRYABLE_BY_CODE = {
    "model_auth": False,
    "model_bad_request": False,
    "model_rate_limited": True,
    "model_unreachable": True,
    "model_error": True,
    "model_timeout": True,
    "model_stream_cut": True,
}


class ProviderError(AppError):
    """The model did not answer."""

    def __init__(
        self, message: str, *, code: str, retryable: bool | None = None, retry_after_seconds: float | None = None
    ) -> None:
        """message: for the person who waits, what happened and what to do; code: one of RETRYABLE_BY_CODE.

        retryable: whether the same request may succeed later (default: as usual for the code).
        retry_after_seconds: how long the server asked to wait, when it said so.
        """
        super().__init__(message, code=code)
        self.retryable = RETRYABLE_BY_CODE[code] if retryable is None else retryable
        self.retry_after_seconds = retry_after_seconds


class Provider(ABC):
    """One endpoint that serves models: many calls at once, on one event loop. Retrying is the engine's."""

    kind: ClassVar[str]

    def __init__(self, *, base_url: str = "", api_key: str = "", default_model: str = "") -> None:
        """Opens nothing yet. base_url, default_model: empty for the kind's own; api_key: empty for none."""
        self.base_url = base_url
        self.api_key = api_key
        self.default_model = default_model

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Call the model: yields text and reasoning as they come and, last, one ModelResponse with all of it.

        The deltas joined are the response's text and reasoning. Tool calls come only in the response, whole:
        their ids are unique in it, their arguments are the model's raw text. Raises ProviderError, also in
        mid-stream. Cancelling the iterating task, or `aclose()` on the generator, ends the call at the other
        side too.
        """

    async def aclose(self) -> None:  # noqa: B027 - most kinds hold nothing open
        """Close idle connections. Calls that still stream break off."""

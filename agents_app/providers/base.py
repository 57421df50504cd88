"""The base class and the error of model providers. tests/contract/test_providers.py tests every provider."""

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
    """A failed model call."""

    def __init__(
        self, message: str, *, code: str, retryable: bool | None = None, retry_after_seconds: float | None = None
    ) -> None:
        """message: for users, what happened and what to do; code: a key of RETRYABLE_BY_CODE.

        retryable: whether the same request may succeed later (default: by the code).
        retry_after_seconds: the wait that the server demands, if any.
        """
        super().__init__(message, code=code)
        self.retryable = RETRYABLE_BY_CODE[code] if retryable is None else retryable
        self.retry_after_seconds = retry_after_seconds


class Provider(ABC):
    """An endpoint that serves models. It handles many calls at once on one event loop, and does not retry."""

    kind: ClassVar[str]

    def __init__(self, *, base_url: str = "", api_key: str = "", default_model: str = "") -> None:
        """Must not connect yet. base_url, default_model: empty for the kind's default; api_key: empty for none."""
        self.base_url = base_url
        self.api_key = api_key
        self.default_model = default_model

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Call the model and yield pieces of text and reasoning, and finally one ModelResponse with all of it.

        The joined pieces equal the text and reasoning of the response. Only the response contains tool calls, with
        unique ids and the model's raw text as arguments. Raises ProviderError, also in the middle of the stream.
        Cancelling the iterating task, or `aclose()` on the generator, also ends the call at the server.
        """

    async def list_models(self, *, seconds: float) -> tuple[str, ...]:
        """Return the ids of the models that the server offers; none if it has no list. Raises ProviderError."""
        return ()

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Close all connections. Calls that still stream fail."""

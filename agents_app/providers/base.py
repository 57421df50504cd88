"""The base class and the error of model providers. tests/contract/test_providers.py tests every provider."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from agents_app.providers.accepts import NOTHING, Accepts
from agents_app.providers.context_overflow import NO_SIZES, Overflow
from agents_app.types import LoadedPart, ModelChunk, ModelRequest, ModelResponse, Usage
from agents_app.types.embeddings import EmbeddingRequest, Embeddings
from agents_app.types.transcriptions import PLAIN, Transcription, TranscriptionOptions
from audit_app.kernel.errors import AppError

RETRYABLE_BY_CODE = {
    "model_auth": False,
    "model_bad_request": False,
    "model_context_overflow": False,
    "model_rate_limited": True,
    "model_unreachable": True,
    "model_error": True,
    "model_timeout": True,
    "model_stream_cut": True,
}


class ProviderError(AppError):
    """A failed model call."""

    usage = Usage()  # that the server reported before the failure

    @property
    def another_model_helps(self) -> bool:
        """Return whether another model may answer the same request."""
        return self.code not in ("model_bad_request", "model_context_overflow")

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool | None = None,
        retry_after_seconds: float | None = None,
        sizes: Overflow = NO_SIZES,
    ) -> None:
        """message: for users, what happened and what to do.
        code: a key of RETRYABLE_BY_CODE.

        retryable: whether the same request may succeed later (default: by the code).
        retry_after_seconds: the wait that the server demands, if any.
        sizes: sizes of a `model_context_overflow`, as far as the server states them.
        """
        super().__init__(message, code=code)
        self.retryable = RETRYABLE_BY_CODE[code] if retryable is None else retryable
        self.retry_after_seconds = retry_after_seconds
        self.limit_tokens = sizes.limit_tokens
        self.request_tokens = sizes.request_tokens


class ModelUnavailable(ProviderError):
    """The provider cannot serve the model, whatever the request: unknown, disabled or configured wrongly."""

    @property
    def another_model_helps(self) -> bool:
        return True


class Provider(ABC):
    """An endpoint that serves models. It handles many calls at once on one event loop, and does not retry."""

    kind: ClassVar[str]
    # The parts of messages that the kind can encode, with its limits.
    parts: ClassVar[Accepts] = NOTHING
    # The results of tools may have parts. For other kinds these are in a message of the user behind the results.
    shows_tool_parts: ClassVar[bool] = False
    # The kinds of parts that an operator has chosen for the provider; None if `known_parts` decides.
    chosen_parts: frozenset[str] | None = None

    # The mode of reasoning within the text (`InlineReasoning`), for servers that have no field for it.
    inline_reasoning: str = ""

    def __init__(self, *, base_url: str = "", api_key: str = "", default_model: str = "") -> None:
        """Must not connect yet.

        base_url, default_model: empty for the kind's default.
        api_key: empty for none.
        """
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

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """Call the model and return its response alone. Raises ProviderError."""
        response = ModelResponse()
        async with aclosing(self.stream(request)) as stream:
            async for chunk in stream:
                response = chunk if isinstance(chunk, ModelResponse) else response
        return response

    def known_parts(self, model: str) -> frozenset[str]:
        """Return the kinds of parts that the model is known to take: image, audio, file. Does not block."""
        return frozenset()

    def accepts(self, model: str) -> Accepts:
        """Return the parts that requests to the model may contain. model: empty for the default."""
        known = self.known_parts(model or self.default_model) if self.chosen_parts is None else self.chosen_parts
        return self.parts.only(known)

    async def transcribe(
        self, audio: LoadedPart, *, model: str, seconds: float, options: TranscriptionOptions = PLAIN
    ) -> Transcription:
        """Return the words of an audio file as the text of a response. Raises ProviderError."""
        raise ModelUnavailable(
            "This model provider cannot transcribe audio. Choose another one.", code="model_bad_request"
        )

    async def embed(self, request: EmbeddingRequest, *, seconds: float) -> Embeddings:
        """Return the vectors of texts. Raises ProviderError."""
        raise ModelUnavailable(
            "This model provider has no models for embeddings. Choose another one.", code="model_bad_request"
        )

    async def list_models(self, *, seconds: float) -> tuple[str, ...]:
        """Return the ids of the models that the server offers; none if it has no list. Raises ProviderError."""
        return ()

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Close all connections. Calls that still stream fail."""

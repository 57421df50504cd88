"""Consumers of requests about what a model would read. Their bodies may have files, as those of new responses."""

from audit_app.kernel.database import in_db
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.openai.body_schemas import INPUT_TOKENS_BODY
from sessions_app.surfaces.openai.context_windows import count_tokens
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.requests import read_window


class InputTokens(LiveConsumer):
    """POST /v1/responses/input_tokens."""

    methods = ("POST",)

    @Operation(
        "Count the input tokens of a response",
        ref("InputTokens"),
        body=INPUT_TOKENS_BODY,
        errors=[404],
        description="Estimated, with the agent's prompt, its tools and the conversation before. Stores nothing.",
    )
    async def respond(self, body: bytes) -> None:
        count = await in_db(self._count, body)
        await self.send_json(200, {"object": "response.input_tokens", "input_tokens": count})

    def _count(self, body: bytes) -> int:
        user = self.principal.user
        return count_tokens(user, read_window(resolve_references(user, clean(parse_json(body))), needs_model=False))

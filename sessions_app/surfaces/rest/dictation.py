"""POST /api/transcriptions: the words of a recording, for a message that a person dictates."""

from agents_app import direct_calls
from agents_app.direct_calls import DirectCall
from agents_app.types.transcriptions import PLAIN
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from sessions_app.access import access_agent
from sessions_app.identity import rate_limits
from sessions_app.surfaces.base.audio import audio_part
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.openapi.operations import Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.rest import envelope
from sessions_app.surfaces.rest.objects.messages import DictatedOut

_AGENT = Parameter(
    "agentId", "The agent whose model provider transcribes, and which is charged. Default: `default`.", TEXT
)


class Dictation(LiveConsumer):
    methods = ("POST",)
    media_types = ()  # any: the type is read from the bytes

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    @Operation(
        "Transcribe a recording",
        DictatedOut,
        body={"type": "string", "format": "binary"},
        media_type="audio/*",
        errors=[402, 404, 502],
        parameters=[_AGENT],
        streams=True,
        description="By the transcription model of the agent's provider. Nothing is stored but the cost.",
    )
    async def respond(self, body: bytes) -> None:
        audio = audio_part(body)
        if audio is None:
            raise InvalidInput("The body must be audio of a known format.", code="unsupported_file_type")
        found = await direct_calls.transcribe(await in_db(self._admit_call), audio, PLAIN)
        await self.send_json(200, envelope.success(DictatedOut.of(None, text=found.text)))

    def _admit_call(self) -> DirectCall:
        agent = access_agent(self.principal.user, self.request.GET.get("agentId") or "default")
        if not agent.provider.transcription_model:
            raise InvalidInput(
                f"The model provider of {agent.agent_id!r} names no model for transcriptions.", code="unsupported_model"
            )
        return direct_calls.admit(agent, self.principal.actor, agent.provider.transcription_model)

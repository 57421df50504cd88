"""Scenarios with Pydantic AI, over both protocols."""

# mypy: ignore-errors

import base64

import drill
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

_kind = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}[drill.protocol]
_model = _kind(drill.model, provider=OpenAIProvider(base_url=drill.url, api_key=drill.key))


def _answer(asked, history=None, **more):
    return drill.wait(Agent(_model, **more).run(asked, message_history=history))


async def _pieces(text, count=None):
    pieces = []
    async with Agent(_model).run_stream(text) as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            pieces.append(piece)
            if len(pieces) == count:
                break
    return pieces


def tools(text):
    return _answer(text, tools=[drill.read_weather]).output


def stream(text):
    return drill.wait(_pieces(text))


def cut(text):
    return drill.wait(_pieces(text, 3))


def structured(text):
    return _answer(text, output_type=NativeOutput(drill.Weather)).output.model_dump()


def structured_by_tool(text):
    return _answer(text, output_type=drill.Weather).output.model_dump()


def picture(text):
    return _answer([text, BinaryContent(base64.b64decode(drill.PIXEL), media_type="image/png")]).output


def second(text, following):
    return _answer(following, _answer(text).all_messages()).output


drill.run(tools, stream, cut, structured, structured_by_tool, picture, second, structures_by="final_result")

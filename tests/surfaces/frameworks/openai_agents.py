"""Scenarios with the OpenAI Agents SDK, over both protocols."""

# mypy: ignore-errors

import drill
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
_client = AsyncOpenAI(base_url=drill.url, api_key=drill.key)
_kind = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[drill.protocol]
_model = _kind(model=drill.model, openai_client=_client)


def _agent(**more):
    return Agent(name="Helper", instructions="Be short.", model=_model, **more)


def _answer(agent, asked):
    return drill.wait(Runner.run(agent, asked))


async def _pieces(text, count=None):
    pieces = []
    result = Runner.run_streamed(_agent(), text)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            pieces.append(event.data.delta)
            if len(pieces) == count:
                result.cancel()
                break
    return pieces


def tools(text):
    return _answer(_agent(tools=[function_tool(drill.read_weather)]), text).final_output


def hand_off(text):
    """Let one agent hand over to another one."""
    expert = Agent(name="Expert", instructions="Know the weather.", model=_model)
    result = _answer(_agent(handoffs=[expert]), text)
    return [result.last_agent.name, result.final_output]


def stream(text):
    return drill.wait(_pieces(text))


def cut(text):
    return drill.wait(_pieces(text, 3))


def structured(text):
    return _answer(_agent(output_type=drill.Weather), text).final_output.model_dump()


def picture(text):
    parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": drill.PICTURE}]
    return _answer(_agent(), [{"role": "user", "content": parts}]).final_output


def second(text, following):
    first = _answer(_agent(), text)
    return _answer(_agent(), [*first.to_input_list(), {"role": "user", "content": following}]).final_output


drill.run(tools, hand_off, stream, cut, structured, picture, second)

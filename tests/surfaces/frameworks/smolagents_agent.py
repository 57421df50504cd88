"""Scenarios with smolagents, whose agents answer by a tool of their own."""

# mypy: ignore-errors

import base64
import io

import drill
from PIL import Image
from smolagents import ChatMessage, LogLevel, MessageRole, OpenAIModel, ToolCallingAgent, tool

_model = OpenAIModel(model_id=drill.model, api_base=drill.url, api_key=drill.key)


def _agent():
    return ToolCallingAgent(tools=[tool(drill.read_weather)], model=_model, max_steps=5, verbosity_level=LogLevel.OFF)


def _deltas(text):
    asked = ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": text}])
    return (delta.content for delta in _model.generate_stream([asked]) if delta.content)


def tools(text):
    return _agent().run(text)


def stream(text):
    return list(_deltas(text))


def cut(text):
    deltas = _deltas(text)
    return [next(deltas) for _ in range(3)]


def picture(text):
    return _agent().run(text, images=[Image.open(io.BytesIO(base64.b64decode(drill.PIXEL)))])


def second(text, following):
    agent = _agent()
    agent.run(text)
    return agent.run(following, reset=False)


drill.run(tools, stream, cut, picture, second, answers_by="final_answer")

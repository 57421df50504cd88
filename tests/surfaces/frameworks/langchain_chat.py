"""Scenarios with LangChain's chat model, over both protocols."""

# mypy: ignore-errors

import drill
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

_model = ChatOpenAI(
    model=drill.model, base_url=drill.url, api_key=drill.key, use_responses_api=drill.protocol == "responses"
)
_weather = tool(drill.read_weather)


def tools(text):
    model, messages = _model.bind_tools([_weather]), [HumanMessage(text)]
    while True:
        answer = model.invoke(messages)
        if not answer.tool_calls:
            return answer.text
        messages += [answer, *(_weather.invoke(call) for call in answer.tool_calls)]


def stream(text):
    return [chunk.text for chunk in _model.stream(text) if chunk.text]


def cut(text):
    pieces = []
    for chunk in _model.stream(text):
        if chunk.text:
            pieces.append(chunk.text)
        if len(pieces) == 3:
            return pieces
    return pieces


def structured(text):
    return _model.with_structured_output(drill.Weather).invoke(text).model_dump()


def picture(text):
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": drill.PICTURE}}]
    return _model.invoke([HumanMessage(parts)]).text


def second(text, following):
    first = [HumanMessage(text)]
    return _model.invoke([*first, _model.invoke(first), HumanMessage(following)]).text


drill.run(tools, stream, cut, structured, picture, second)

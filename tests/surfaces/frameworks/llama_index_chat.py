"""Scenarios with LlamaIndex's model for servers that are like OpenAI's."""

# mypy: ignore-errors

import drill
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

_model = OpenAILike(
    model=drill.model,
    api_base=drill.url,
    api_key=drill.key,
    is_chat_model=True,
    is_function_calling_model=True,
    context_window=8_000,
)


def _user(text):
    return ChatMessage(role="user", content=text)


def tools(text):
    weather, messages = FunctionTool.from_defaults(drill.read_weather), [_user(text)]
    while True:
        answer = _model.chat_with_tools([weather], chat_history=messages)
        messages.append(answer.message)
        calls = _model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        if not calls:
            return answer.message.content
        for call in calls:
            output = str(weather.call(**call.tool_kwargs))
            messages.append(ChatMessage(role="tool", content=output, additional_kwargs={"tool_call_id": call.tool_id}))


def stream(text):
    return [chunk.delta for chunk in _model.stream_chat([_user(text)]) if chunk.delta]


def cut(text):
    pieces = []
    for chunk in _model.stream_chat([_user(text)]):
        pieces += [chunk.delta] if chunk.delta else []
        if len(pieces) == 3:
            break
    return pieces


def structured_by_tool(text):
    return _model.structured_predict(drill.Weather, PromptTemplate(text)).model_dump()


def picture(text):
    blocks = [TextBlock(text=text), ImageBlock(url=drill.PICTURE)]
    return _model.chat([ChatMessage(role="user", blocks=blocks)]).message.content


def second(text, following):
    return _model.chat([_user(text), _model.chat([_user(text)]).message, _user(following)]).message.content


drill.run(tools, stream, cut, structured_by_tool, picture, second, structures_by="Weather")

"""Scenarios with LiteLLM, over both protocols."""

# mypy: ignore-errors

import json

import drill
import litellm

_AT = {"model": f"openai/{drill.model}", "api_base": drill.url, "api_key": drill.key}
_FUNCTION = {
    "name": "read_weather",
    "description": "Read the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def _user(content):
    return {"role": "user", "content": content}


def _message(messages, **more):
    return litellm.completion(messages=messages, **_AT, **more).choices[0].message


def tools(text):
    messages = [_user(text)]
    while True:
        answer = _message(messages, tools=[{"type": "function", "function": _FUNCTION}])
        if not answer.tool_calls:
            return answer.content
        messages.append(answer.model_dump())
        for call in answer.tool_calls:
            output = drill.read_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


def _deltas(text):
    for chunk in litellm.completion(messages=[_user(text)], stream=True, **_AT):
        if chunk.choices and chunk.choices[0].delta.content:
            yield chunk.choices[0].delta.content


def stream(text):
    return list(_deltas(text))


def cut(text):
    deltas = _deltas(text)
    return [next(deltas) for _ in range(3)]


def structured(text):
    return json.loads(_message([_user(text)], response_format=drill.Weather).content)


def picture(text):
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": drill.PICTURE}}]
    return _message([_user(parts)]).content


def second(text, following):
    first = _message([_user(text)])
    return _message([_user(text), first.model_dump(), _user(following)]).content


def respond(text):
    """Ask by the Responses API, streamed."""
    events = litellm.responses(input=text, stream=True, **_AT)
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


drill.run(tools, stream, cut, structured, picture, second, respond)

"""Scenarios with instructor, which asks for structured output alone."""

# mypy: ignore-errors

import drill
import instructor
from openai import OpenAI

_openai = OpenAI(base_url=drill.url, api_key=drill.key)


def _weather(mode, text):
    client = instructor.from_openai(_openai, mode=mode)
    asked = [{"role": "user", "content": text}]
    found = client.chat.completions.create(
        model=drill.model, response_model=drill.Weather, messages=asked, max_retries=0
    )
    return found.model_dump()


def structured(text):
    return _weather(instructor.Mode.JSON_SCHEMA, text)


def structured_by_tool(text):
    return _weather(instructor.Mode.TOOLS, text)


drill.run(structured, structured_by_tool, structures_by="Weather")

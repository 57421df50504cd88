"""Times model calls in process, before and after a burst. Prints JSON: CPU milliseconds of a call.

A separate program, because it needs Django: `python -m benchmarks.model_call_cost URL CALLS`.
"""

import asyncio
import json
import os
import sys
import time

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "komand.settings.worker"
django.setup()

# Only after Django is set up: these modules name models.
from agents_app.providers.kinds.openai import OpenAIProvider  # noqa: E402
from agents_app.types import Message, ModelRequest  # noqa: E402

_BURST = 200
_REQUEST = ModelRequest(model="fake", messages=(Message("user", "[[tokens=20 rate=0]]"),))


async def _call(provider: OpenAIProvider) -> None:
    async for _ in provider.stream(_REQUEST):
        pass


async def _cpu_ms(provider: OpenAIProvider, calls: int) -> float:
    begun = time.process_time()
    for _ in range(calls):
        await _call(provider)
    return (time.process_time() - begun) * 1000 / calls


async def measure(url: str, calls: int) -> dict[str, float]:
    provider = OpenAIProvider(base_url=url, api_key="benchmark", default_model="fake")
    try:
        await _cpu_ms(provider, calls)
        before = await _cpu_ms(provider, calls)
        await asyncio.gather(*(_call(provider) for _ in range(_BURST)))
        return {"before": before, "after": await _cpu_ms(provider, calls)}
    finally:
        await provider.aclose()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))

"""The tokens of the fake model, for the programs in this folder. They run in the virtualenvs of the peers."""

import json
import logging
import os
from collections.abc import AsyncIterator
from functools import cache

import httpx

logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log each call


@cache
def _client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    return httpx.AsyncClient(base_url=os.environ["MODEL_URL"], limits=limits, timeout=120, trust_env=False)


async def tokens(text: str) -> AsyncIterator[str]:
    body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": text}]}
    async with _client().stream("POST", "/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if token := choice["delta"].get("content"):
                        yield token

"""A model server cannot send conversations elsewhere by a redirect."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agents_app.providers.base import Provider, ProviderError
from agents_app.providers.kinds.openai import OpenAIProvider
from agents_app.providers.kinds.openai_responses import ResponsesProvider
from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.streams import collect, request_of

pytestmark = pytest.mark.one_database

ASKS: dict[str, Callable[[Provider], Awaitable[Any]]] = {
    "models": lambda provider: provider.list_models(seconds=10),
    "message": lambda provider: collect(provider, request_of("It is secret.", model="m")),
}


class Redirecting(FakeServer):
    """A server that redirects everything to `to`, or keeps the requests if that is empty."""

    def __init__(self, to: str = "") -> None:
        super().__init__()
        self._to, self.taken = to, list[str]()

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        self.taken.append(request.path)
        return (307, {"location": f"{self._to}/inside"}, b"") if self._to else (200, {}, b"{}")


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", [OpenAIProvider, ResponsesProvider])
async def test_a_redirect_is_an_error_that_says_what_to_do(kind: type[Provider], ask: str) -> None:
    with Redirecting() as inside, Redirecting(inside.url) as server:
        provider = kind(base_url=f"{server.url}/v1")
        with pytest.raises(ProviderError, match=r"redirects to another address \(307\)\. Enter that address"):
            await ASKS[ask](provider)
        await provider.aclose()
        assert server.taken and not inside.taken

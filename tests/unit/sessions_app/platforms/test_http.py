"""The certainty about a message by its platform's response, or by the error of the connection."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.http import post


class Breaking(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"ok"'
        raise httpx2.RemoteProtocolError("peer closed the connection")


def answering(response: httpx2.Response) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: response))


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_a_status_counts_although_its_body_breaks_off(status: int) -> None:
    response, body = await post(answering(httpx2.Response(status, stream=Breaking())), "https://example.org/")
    assert response.status_code == status and body == b'{"ok"'


async def test_a_body_with_a_wrong_encoding_does_not_hide_the_status() -> None:
    content = httpx2.ByteStream(b"plain text")
    answer = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=content)
    response, body = await post(answering(answer), "https://example.org/")
    assert response.is_success and body == b""


async def test_no_answer_at_all_leaves_a_doubt() -> None:
    def breaks(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError("broken")

    with pytest.raises(SendError) as raised:
        await post(httpx2.AsyncClient(transport=httpx2.MockTransport(breaks)), "https://example.org/")
    assert raised.value.certainty is SendCertainty.UNKNOWN

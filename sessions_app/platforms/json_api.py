"""Adapters of platforms whose HTTP API answers with JSON."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx2

from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.http import HttpAdapter, call, certainty_of, retry_after_seconds


class JsonApi(HttpAdapter):
    """An adapter that calls an HTTP API with JSON answers. Its errors name the platform."""

    platform: ClassVar[str] = ""  # if it is not the channel's name

    async def call_json(self, method: str, url: str, *, empty: Any = None, **content: Any) -> Any:
        """Send a request and return what `result_of` reads in the answer. Raises SendError.

        empty: stands for an empty body.
        """
        response, body = await call(self.client, method, url, **content)
        try:
            answer = json.loads(body) if body else empty
        except ValueError:
            answer = None
            if response.is_success:
                raise self.unreadable() from None
        return self.result_of(response, answer)

    def result_of(self, response: httpx2.Response, answer: Any) -> Any:
        """Return the result of an answer, which is None if it is no JSON. Raises SendError."""
        if not response.is_success:
            raise self.refusal_of(response, as_object(answer))
        if not isinstance(answer, dict):
            raise self.unreadable()
        return answer

    def refusal_of(self, response: httpx2.Response, answer: Mapping[str, Any]) -> SendError:
        """Return the error of a refused request. answer: the JSON object, empty for any other answer."""
        return self.refusal(response, f"status {response.status_code}")

    def unreadable(self) -> SendError:
        """Return the error for an answer of success that cannot be read: the platform may have done its part."""
        return SendError(f"The response of {self.platform or self.name} cannot be parsed.", SendCertainty.UNKNOWN)

    def refusal(
        self, response: httpx2.Response, text: str, certainty: SendCertainty | None = None, **more: Any
    ) -> SendError:
        """Return an error with the certainty and the wait of the response, unless others are given."""
        waits = more.pop("retry_after_seconds", None) or retry_after_seconds(response.headers, self.clock())
        certainty = certainty or certainty_of(response.status_code)
        message = f"{self.platform or self.name}: {text}"[:300]
        return SendError(message, certainty, retry_after_seconds=waits, **more)


def as_object(answer: Any) -> dict[str, Any]:
    """Return a JSON object, empty for any other value."""
    return answer if isinstance(answer, dict) else {}

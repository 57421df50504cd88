"""Fixtures of the integration tests: followers are closed on their loop, and circuit breakers are reset."""

import inspect
from collections.abc import AsyncIterator

import pytest

from audit_app import follow
from audit_app.kernel import nudges, valkey
from sessions_app.identity import rate_limits


@pytest.fixture
async def _followed() -> AsyncIterator[None]:
    yield
    await follow.current_follower().aclose()


@pytest.fixture(autouse=True)
def _close_follower(request: pytest.FixtureRequest) -> None:
    """Close the follower on its loop; the garbage collector would complain in another test."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_followed")


@pytest.fixture(autouse=True)
def _reset_breakers() -> None:
    """Close the circuit breakers of Valkey, which a test with an outage leaves open for seconds."""
    for breaker in (rate_limits._breaker, nudges._breaker, valkey.breaker):
        breaker._open_until = float("-inf")

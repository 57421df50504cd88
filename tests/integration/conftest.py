"""What tests with the real parts share: on whichever loop something was followed, it is closed there; and what failed
in one test is asked again in the next."""

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
def _nothing_is_followed_on(request: pytest.FixtureRequest) -> None:
    """A loop that ends would leave its connections to the collector, which complains in another test."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_followed")


@pytest.fixture(autouse=True)
def _valkey_is_asked() -> None:
    """A test in which it was away would have it left alone for seconds: no limit counted, no bell rung."""
    for breaker in (rate_limits._breaker, nudges._breaker, valkey.breaker):
        breaker._open_until = float("-inf")

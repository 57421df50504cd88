"""What tests with the real parts share: on whichever loop something was followed, it is closed there."""

import inspect
from collections.abc import AsyncIterator

import pytest

from audit_app import follow


@pytest.fixture
async def _followed() -> AsyncIterator[None]:
    yield
    await follow.follower().aclose()


@pytest.fixture(autouse=True)
def _nothing_is_followed_on(request: pytest.FixtureRequest) -> None:
    """A loop that ends would leave its connections to the collector, which complains in another test."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_followed")

"""A follower of its own for each test."""

from collections.abc import AsyncIterator

import pytest
import redis

from audit_app import follow
from audit_app.follow import Follower
from tests.integration.audit_app.timelines import Conversation


@pytest.fixture
async def follower(valkey: "redis.Redis") -> AsyncIterator[Follower]:
    yield follow.current_follower()
    await follow.current_follower().aclose()


@pytest.fixture
def conversation(valkey: "redis.Redis") -> Conversation:
    return Conversation(valkey)

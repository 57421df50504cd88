"""A follower of its own for each test."""

import pytest
import redis

from audit_app import follow
from audit_app.follow import Follower
from tests.integration.audit_app.timelines import Conversation


@pytest.fixture
async def follower(valkey: "redis.Redis") -> Follower:
    return follow.current_follower()


@pytest.fixture
def conversation(valkey: "redis.Redis") -> Conversation:
    return Conversation(valkey)

"""A caller of the agent-message protocol."""

import pytest
from django.contrib.auth.models import User

from tests.support.agents import AgentCaller


@pytest.fixture
def caller(alice: User) -> AgentCaller:
    return AgentCaller(alice)

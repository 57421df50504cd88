"""A client of the OpenAI protocol."""

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app.models import Agent
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.openai import consumers
from tests.support.rest import LiveCaller


@pytest.fixture
def caller(default_agent: Agent, alice: User) -> LiveCaller:
    return LiveCaller(URLRouter(consumers.routes), bearer=create_api_key(alice, "k", scopes=["all"]).key)

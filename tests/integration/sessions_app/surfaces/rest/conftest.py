"""Clients of the REST API."""

import pytest
from django.contrib.auth.models import User

from agents_app.rights import CREATE_AGENTS
from tests.support.rest import RestCaller
from tests.support.rights import grant


@pytest.fixture
def caller(alice: User) -> RestCaller:
    return RestCaller(alice)


@pytest.fixture
def author(alice: User) -> RestCaller:
    """Return a client of alice, who may create agents."""
    return RestCaller(grant(alice, CREATE_AGENTS))

"""The browser of a user of the chat page."""

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def browser(alice: User) -> Client:
    client = Client()
    client.force_login(alice)
    return client

"""Networks in the admin: problems in place, the picture, versions."""

import pytest
from django.test import Client
from django.urls import reverse

from agents_app.models import StoredNetwork
from agents_app.types import RunStatus
from tests.support.rest import make_agent, make_run, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

ADD = "admin:agents_app_storednetwork_add"
NETWORK = "name: support\ntasks:\n- name: triage\n- name: reply\n  depends_on: [triage]\n"


def test_a_network_is_created_and_drawn(pages: Client) -> None:
    make_agent()
    assert pages.post(reverse(ADD), {"definition": NETWORK.replace("\n", "\r\n")}, follow=True).status_code == 200
    stored = StoredNetwork.objects.get()
    assert (stored.name, stored.definition, stored.version) == ("support", NETWORK, 1)
    page = pages.get(reverse("admin:agents_app_storednetwork_change", args=[stored.pk])).content.decode()
    assert "<svg" in page and "flowchart TD" in page and "Version 1" in page


def test_problems_stand_beside_the_definition(pages: Client) -> None:
    make_agent()
    answer = pages.post(reverse(ADD), {"definition": NETWORK.replace("[triage]", "[nobody]")})
    assert "line 5: tasks[1].depends_on[0]: there is no task or group" in answer.content.decode()
    assert not StoredNetwork.objects.exists()


def test_a_change_is_a_version_and_keeps_the_name(pages: Client) -> None:
    make_agent()
    pages.post(reverse(ADD), {"definition": NETWORK})
    stored = StoredNetwork.objects.get()
    page = reverse("admin:agents_app_storednetwork_change", args=[stored.pk])
    pages.post(page, {"definition": NETWORK + "  retries: 1\n", "is_shared_with_everyone": "on"})
    stored.refresh_from_db()
    assert (stored.version, stored.is_shared_with_everyone) == (2, True)
    answer = pages.post(page, {"definition": NETWORK.replace("support", "other")})
    assert "name of a network cannot be changed" in answer.content.decode()


def test_the_page_of_a_run_shows_the_state_of_each_task(pages: Client) -> None:
    session = make_session(make_user("alice"))
    network = {"name": "support", "version": 1, "definition": NETWORK, "context": {}}
    run = make_run(session, RunStatus.WAITING, options={"network": network}, waiting_on="children")
    task = make_run(session, parent=run, kind="task", workstream="triage", depth=1)
    task.refresh_from_db()
    page = pages.get(reverse("admin:agents_app_run_change", args=[run.pk])).content.decode()
    assert "default, succeeded" in page and "default, waiting" in page
    other = pages.get(reverse("admin:agents_app_run_change", args=[task.pk])).content.decode()
    assert 'id="network"' not in other

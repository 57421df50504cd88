"""Schedules in the admin: created for oneself, run, paused; an empty history."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app.models import Agent, Run
from agents_app.network_runs import library
from sessions_app.models import Schedule
from tests.support.rest import make_agent, make_user
from tests.support.schedules import make_schedule

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

LIST = "admin:sessions_app_schedule_changelist"
NEW = {
    "task_id": "report",
    "prompt": "Report.",
    "cron": "0 9 * * *",
    "time_zone": "Europe/Berlin",
    "missed": "latest",
    "at_0": "",
    "at_1": "",
}


def test_an_operator_creates_one_for_themselves(pages: Client) -> None:
    agent = make_agent()
    answer = pages.post(reverse("admin:sessions_app_schedule_add"), {**NEW, "agent": agent.pk}, follow=True)
    assert answer.status_code == 200
    schedule = Schedule.objects.get()
    assert (schedule.owner.get_username(), schedule.time_zone) == ("operator", "Europe/Berlin")  # type: ignore[union-attr]
    assert "At 09:00 every day" in pages.get(reverse(LIST)).content.decode()


def test_what_cannot_be_read_is_explained_in_the_form(pages: Client) -> None:
    fields = {**NEW, "agent": make_agent().pk, "cron": "at nine"}
    answer = pages.post(reverse("admin:sessions_app_schedule_add"), fields)
    assert "five fields" in answer.content.decode() and not Schedule.objects.exists()


def test_the_form_asks_for_no_network_without_one(pages: Client) -> None:
    make_agent()
    shown = pages.get(reverse("admin:sessions_app_schedule_add")).content.decode()
    assert (
        "If Komand was off at that time" in shown
        and "network" not in shown.lower().split("</head>")[1].split("<main")[-1]
    )


def test_a_network_is_chosen_from_those_of_the_operator(pages: Client, operator: User) -> None:
    fields = {**NEW, "agent": make_agent().pk, "network": "daily"}
    library.create("name: daily\ntasks:\n- name: a\n", Agent.objects.all(), owner_id=operator.pk)
    add = reverse("admin:sessions_app_schedule_add")
    assert ">daily<" in pages.get(add).content.decode()
    assert "Enter a JSON object" in pages.post(add, {**fields, "network_context": "[1]"}).content.decode()
    pages.post(add, {**fields, "network_context": '{"tone": "dry"}'})
    schedule = Schedule.objects.get()
    assert (schedule.network, schedule.network_context) == ("daily", {"tone": "dry"})
    page = reverse("admin:sessions_app_schedule_change", args=[schedule.pk])
    assert "daily" in pages.get(page).content.decode()


def test_it_is_run_and_paused_by_buttons(pages: Client) -> None:
    schedule = make_schedule(make_user("alice"))
    page = reverse("admin:sessions_app_schedule_change", args=[schedule.pk])
    assert "It has not run yet." in pages.get(page).content.decode()
    base = page.removesuffix("change/")
    pages.post(f"{base}run-now/", {"_form_submitted": "1"})
    assert Run.objects.get().actor.startswith("user:")
    pages.post(f"{base}pause/", {"_form_submitted": "1"})
    schedule.refresh_from_db()
    assert schedule.is_paused
    pages.post(f"{base}resume/", {"_form_submitted": "1"})
    schedule.refresh_from_db()
    assert not schedule.is_paused

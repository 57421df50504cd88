"""The page "Costs", the costs on the dashboard, and the caps on the page of a user."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app.costs.usage_ledger import today
from agents_app.models import CostAlert, CostTotal, DailyUsage, UserCostCap
from audit_app.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
PAGE = "/admin/agents_app/dailyusage/"


def used(actor: str, agent_id: str = "default", *, cost: float = 1.5, days_ago: int = 0, **more: Any) -> None:
    fields = {"provider": "demo", "model": "m", "calls": 3, "input_tokens": 1200, "output_tokens": 34, **more}
    keys = {"day": today() - timedelta(days=days_ago), "conversation_id": uuid4(), "agent_id": agent_id}
    DailyUsage.objects.create(**fields, **keys, actor=actor, cost_nanos=int(cost * 10**9))


def read(client: Client, query: str = "") -> str:
    response = client.get(f"{PAGE}{query}")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_without_usage_and_caps_it_says_what_to_do(pages: Client) -> None:
    shown = read(pages)
    assert "No model was called in this range." in shown
    assert "No caps are set. KOMAND_COST_PER_DAY" in shown


def test_it_shows_sums_with_names_and_totals(pages: Client, operator: User, agent: Any, settings: Any) -> None:
    settings.KOMAND_CURRENCY = "EUR"
    used(f"user:{operator.pk}")
    used("user:999", "gone", cost=0.5, days_ago=40)
    shown = read(pages, "?by=agent&days=90")
    assert "1.5 EUR" in shown and "75 %" in shown and ">Assistant</a>" in shown and "gone" in shown
    assert shown.count("2 EUR") == 2  # the tile and the last row
    assert "2 EUR" not in read(pages, "?by=agent&days=30")
    assert ">operator</" in read(pages, "?by=user")
    assert "demo/m" in read(pages, "?by=day,agent,model&days=nonsense")


def test_keys_of_a_hostile_name_are_escaped(pages: Client) -> None:
    used("user:1", model="<script>alert(1)</script>\u202e")
    shown = read(pages, "?by=model")
    assert "<script>alert" not in shown and "\\u202e" in shown


def test_its_csv_file_is_that_of_the_rest_api(pages: Client) -> None:
    used("user:1")
    link = read(pages, "?by=model").split('href="/api/usage')[1].split('"')[0].replace("&amp;", "&")
    response = pages.get(f"/api/usage{link}")
    assert response["Content-Type"].startswith("text/csv")
    assert "demo,m" in response.content.decode()


def test_it_shows_caps_and_alerts(pages: Client, operator: User, agent: Any, settings: Any) -> None:
    settings.KOMAND_COST_PER_DAY = 10
    UserCostCap.objects.create(user=operator, per_month=4)
    for scope, spent in (("installation", 8), (f"user:{operator.pk}", 5)):
        CostTotal.objects.create(scope=scope, day=today(), shard=1, cost_nanos=spent * 10**9)
    CostAlert.objects.create(scope=f"user:{operator.pk}", period="month", day=today().replace(day=1), level="reached")
    shown = read(pages)
    assert "8 of 10" in shown and "80 %" in shown
    assert "5 of 4" in shown and "125 %" in shown
    assert "operator: the cap per month is used up" in shown


def test_it_takes_the_right(staff: Any) -> None:
    assert staff("agents_app.view_run").get(PAGE).status_code == 403
    assert staff("agents_app.view_dailyusage", name="other").get(PAGE).status_code == 200


def test_the_dashboard_shows_the_cost_of_today(pages: Client, staff: Any, settings: Any) -> None:
    settings.KOMAND_COST_PER_DAY = 2
    used("user:1")
    CostTotal.objects.create(scope="installation", day=today(), shard=0, cost_nanos=1_900_000_000)
    shown = pages.get(reverse("admin:index")).content.decode()
    assert "Cost today" in shown and "95 % of the cap per day" in shown and "k-tile-warning" in shown
    assert "Cost today" not in staff("agents_app.view_run").get(reverse("admin:index")).content.decode()


def test_caps_are_set_on_the_page_of_a_user(pages: Client, staff: Any) -> None:
    user = User.objects.create_user("alice")
    address = reverse("admin:auth_user_change", args=[user.pk])
    form = {"username": "alice", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}
    row = {"cost_cap-TOTAL_FORMS": "1", "cost_cap-INITIAL_FORMS": "0", "cost_cap-0-user": user.pk}
    assert pages.post(address, {**form, **row, "cost_cap-0-per_day": "2.5"}).status_code == 302
    cap = UserCostCap.objects.get()
    assert (cap.user_id, cap.per_day, cap.per_month) == (user.pk, 2.5, None)
    assert AuditEntry.objects.filter(action="UserUpdated").exists()
    other = staff("auth.change_user", "auth.view_user")
    assert "cost_cap-0-per_day" not in other.get(address).content.decode()
    other.post(address, {**form, **row, "cost_cap-INITIAL_FORMS": "1", "cost_cap-0-per_day": "999"})
    assert UserCostCap.objects.get().per_day == 2.5
    assert pages.get(reverse("admin:auth_user_add")).status_code == 200

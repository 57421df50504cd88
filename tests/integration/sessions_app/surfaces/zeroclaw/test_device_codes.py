"""Pairing: the page that makes codes, their use, limits and end, and the list of devices. Access: strangers."""

import json
import re
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client

from audit_app.models import AuditEntry
from sessions_app.identity import device_codes
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.rate_limits import Limit
from sessions_app.models import ApiKey
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def code_of(client: Client, **form: str) -> str:
    page = client.post("/account/devices/code", form).content.decode()
    found = re.search(r"<code>(\d{4}) (\d{4})</code>", page)
    assert found
    return f"{found[1]} {found[2]}"


def ask(method: str, path: str, body: Any = None, *, key: str = "", **headers: str) -> tuple[int, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent |= {"Authorization": f"Bearer {key}"} if key else {}
    data = "" if body is None else json.dumps(body)
    answer = Client().generic(method, f"/zeroclaw{path}", data, "application/json", headers=sent)
    return answer.status_code, answer.json()


def pair(code: str, **body: Any) -> tuple[int, Any]:
    return ask("POST", "/api/pair", {"code": code, **body})


@pytest.fixture
def page(alice: User, settings: Any) -> Client:
    settings.KOMAND_FRESH_LOGIN_MINUTES = 0
    return browser(alice)


def test_a_code_of_the_page_gives_a_device_a_key_once(page: Client, alice: User, valkey: "redis.Redis") -> None:
    assert "No device is paired" in page.get("/account/devices").content.decode()
    code = code_of(page)
    plain = code.replace(" ", "")
    assert plain not in page.get("/account/devices").content.decode(), "it is shown once"
    assert not any(plain in f"{key!r}{valkey.get(key)!r}" for key in valkey.scan_iter("*device-code*"))
    status, paired = pair(code, device_name="Laptop", device_type="cli")
    assert (status, paired["paired"]) == (200, True)
    row = ApiKey.objects.get()
    assert (row.user, row.name, row.scopes) == (alice, "Laptop", ["zeroclaw"])
    assert pair(code) == (403, {"error": str(device_codes.WrongCode().message), "code": "wrong_code"}), "it is used up"
    token = paired["token"]
    [device] = ask("GET", "/api/devices", key=token)[1]["devices"]
    assert (device["id"], device["name"]) == (str(row.pk), "Laptop") and token not in json.dumps(device)
    assert "Laptop" in page.get("/account/devices").content.decode()
    assert ask("GET", "/api/devices", key=token, body=None)[0] == 200
    assert Client().get("/api/sessions", headers={"Authorization": f"Bearer {token}"}).status_code == 403, (
        "another surface"
    )
    actions = AuditEntry.objects.filter(actor=f"user:{alice.pk}").order_by("pk").values_list("action", flat=True)
    assert [one for one in actions if "Device" in one or "Key" in one] == ["DeviceCodeMade", "ApiKeyCreated"]


def test_the_code_may_be_in_a_header_and_rights_are_given_by_the_page_alone(page: Client) -> None:
    status, paired = ask("POST", "/pair", X_Pairing_Code=code_of(page, with_rights="yes"))
    assert status == 200 and ApiKey.objects.get().scopes == ["rights", "zeroclaw"]
    pair(code_of(page), device_name="x", scopes=["all", "rights"], unknown={"field": 1})
    assert ApiKey.objects.filter(scopes=["zeroclaw"]).count() == 1
    for path in ("/api/pairing/initiate", "/admin/paircode/new"):
        assert ask("POST", path, {}, key=paired["token"])[1]["code"] == "not_served", "a key makes no key"
    assert ask("GET", "/pair/code")[1]["pairing_code"] is None


def test_a_code_ends_after_its_time_with_a_newer_one_and_with_the_password(
    page: Client, alice: User, valkey: "redis.Redis"
) -> None:
    first, second = code_of(page), code_of(page)
    assert pair(first)[0] == 403
    lives = [valkey.ttl(key) for key in valkey.scan_iter("*device-code*")]
    assert lives and all(0 < seconds <= 600 for seconds in lives)
    for key in valkey.scan_iter("*device-code*"):
        valkey.expire(key, 0)
    assert pair(second)[0] == 403
    third = code_of(page)
    alice.set_password("another-secret")
    alice.save()
    assert pair(third)[0] == 403
    fourth = code_of(browser(alice))
    User.objects.update(is_active=False)
    assert pair(fourth)[0] == 403 and not ApiKey.objects.exists()


def test_guesses_are_limited_for_one_address_and_for_everybody(
    page: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_of(page)
    settings.KOMAND_LOGIN_LIMIT = 3
    assert [pair(f"{number:08}")[0] for number in range(4)] == [403, 403, 403, 429]
    settings.KOMAND_LOGIN_LIMIT = 0
    monkeypatch.setattr(device_codes, "_GUESSES", Limit("device_codes", 4, 600))
    assert [pair(f"{number:08}")[0] for number in range(2)] == [403, 429]
    assert pair(code)[0] == 429, "nobody can go on"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"code": ""}, 400),
        ({"code": "abc"}, 400),
        ({"code": "1" * 50}, 400),
        ({"code": ["1"]}, 400),
        ([], 400),
        ({"code": "１２３４５６７８"}, 400),
        ({"code": "12345678", "device_name": "x" * 200}, 400),
    ],
)
def test_codes_that_are_none_are_refused(page: Client, body: Any, status: int) -> None:
    assert ask("POST", "/api/pair", body)[0] == status and not ApiKey.objects.exists()
    assert ask("POST", "/pair")[1]["code"] == "code_required"


def test_a_code_takes_a_fresh_login(alice: User, settings: Any) -> None:
    settings.KOMAND_FRESH_LOGIN_MINUTES = 5
    client = browser(alice)
    session = client.session
    session["authenticated_at"] = 1
    session.save()
    answer = client.post("/account/devices/code")
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/confirm")
    assert Client().post("/account/devices/code").status_code in (302, 401)


def test_devices_are_removed_by_their_user_alone_and_their_keys_end(page: Client, alice: User) -> None:
    eve = make_user("eve", is_superuser=True)
    hers = create_api_key(eve, "k", scopes=["zeroclaw", "rights"])
    script = create_api_key(alice, "script", scopes=["all"]).row
    first, second = (pair(code_of(page), device_name=name)[1]["token"] for name in "ab")
    devices = {one["name"]: one["id"] for one in ask("GET", "/api/devices", key=first)[1]["devices"]}
    assert set(devices) == {"a", "b"}, "a key of all surfaces is no device"
    for key_id in (devices["b"], str(script.pk), str(uuid4()), "x"):
        assert ask("DELETE", f"/api/devices/{key_id}", key=hers.key)[0] == 404
    assert ask("DELETE", f"/api/devices/{script.pk}", key=first)[0] == 404
    assert browser(eve).post(f"/account/devices/{devices['b']}/remove").status_code == 404
    assert ask("DELETE", f"/api/devices/{devices['b']}", key=first) == (200, {"deleted": True})
    assert ask("GET", "/api/devices", key=second)[0] == 401
    assert page.post(f"/account/devices/{devices['a']}/remove").status_code == 302
    assert ask("GET", "/api/devices", key=first)[0] == 401
    assert page.post(f"/account/devices/{devices['a']}/remove").status_code == 404

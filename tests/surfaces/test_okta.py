"""Login by OpenID Connect at an emulated Okta, whose groups give and take a role."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.security.test_people_oidc import load_routes
from tests.surfaces import npm

pytestmark = [pytest.mark.npm, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

CALLBACK = "http://testserver/login/oidc/callback"


class Form(HTMLParser):
    """The first form of a page: its address and its hidden fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = found["action"]
        elif tag == "input":
            self.fields.setdefault(found["name"], found.get("value", ""))


@pytest.fixture(scope="module")
def okta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an Okta with the user Ada, who is in the group komand-operators."""
    folder = tmp_path_factory.mktemp("okta")
    npm.install(folder, "emulate@0.12.2")
    shutil.copy(Path(__file__).with_name("okta.mjs"), folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["node", "okta.mjs", str(port), CALLBACK]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout and node.stdin
        assert any(line.strip() == "ready" for line in node.stdout)
        yield f"http://127.0.0.1:{port}"
        node.stdin.close()


@pytest.fixture
def provider(okta: str, settings) -> Iterator[str]:
    settings.KOMAND_OIDC_ISSUER = f"{okta}/oauth2/default"
    settings.KOMAND_OIDC_CLIENT_ID, settings.KOMAND_OIDC_CLIENT_SECRET = "komand", "komand-secret"
    settings.KOMAND_OIDC_SCOPES = "openid email profile groups"
    settings.KOMAND_OIDC_ROLES = [("komand-operators", "Operator")]
    load_routes()
    yield okta
    settings.KOMAND_OIDC_ISSUER = ""
    load_routes()


def log_in(browser: Client, start: str = "/login/oidc") -> Any:
    address = browser.get(start).headers["Location"]
    with httpx2.Client() as people:
        form = Form(people.get(address).text)
        back = people.post(urljoin(address, form.action), data={**form.fields, "user_ref": "00u_ada"}).headers[
            "location"
        ]
    assert back.startswith(CALLBACK)
    return browser.get(f"{urlsplit(back).path}?{urlsplit(back).query}")


def test_ada_logs_in_with_the_role_of_her_group_and_loses_it_with_the_group(provider: str) -> None:
    Group.objects.get_or_create(name="Operator")
    browser = Client()
    assert log_in(browser, "/login/oidc?next=/account").headers["Location"] == "/account"
    user = User.objects.get()
    assert (user.get_full_name(), user.email) == ("Ada Lovelace", "ada@okta.local")
    assert [group.name for group in user.groups.all()] == ["Operator"]
    assert browser.get("/account").status_code == 200
    headers = {"Authorization": "SSWS any"}
    left = httpx2.delete(f"{provider}/api/v1/groups/00g_ops/users/00u_ada", headers=headers)
    assert left.status_code == 204, left.text
    log_in(Client())
    assert not User.objects.get().groups.exists()


def test_a_confirmation_and_a_logout_at_okta(provider: str) -> None:
    browser = Client()
    log_in(browser)
    session = browser.session
    session["authenticated_at"] = 0
    session.save()
    assert log_in(browser, "/login/oidc/confirm?next=/account").headers["Location"] == "/account"
    assert browser.session["authenticated_at"] > 0
    browser.post("/logout")
    assert browser.get("/login/oidc/logout").headers["Location"].startswith(f"{provider}/oauth2/default/v1/logout?")
    assert browser.get("/account").status_code == 302

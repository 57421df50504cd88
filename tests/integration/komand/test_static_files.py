"""Static files and pages: compressed, and cached for a year under the address of their release."""

import gzip
import re

import pytest
from django.contrib.auth.models import User
from django.templatetags.static import static
from django.test import Client

from komand import static_files

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
GZIP = {"Accept-Encoding": "gzip, br"}
# What a first visit of the chat page may load, with its font. It was 481 KB.
MOST_BYTES = 130_000


@pytest.fixture
def page(client: Client) -> str:
    """Return the chat page of a new user."""
    client.force_login(User.objects.create_user("ann"))
    return client.get("/", follow=True).content.decode()


def test_a_static_file_is_cached_for_ever_under_the_address_of_its_release(client: Client) -> None:
    address = static("css/base.css")
    assert static_files.release() in address
    assert client.get(address).headers["Cache-Control"] == "max-age=31536000, public, immutable"
    for other in ("/static/css/base.css", address.replace(static_files.release(), "0" * 12)):
        found = client.get(other)
        assert found.status_code == 200 and found.headers["Cache-Control"] == "max-age=60, public"
    assert client.get(f"/static/r-{static_files.release()}/../web.py").status_code == 404


def test_a_static_file_is_compressed_if_the_browser_takes_it(client: Client) -> None:
    plain = client.get(static("css/base.css"))
    short = client.get(static("css/base.css"), headers=GZIP)
    assert short.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert gzip.decompress(short.content) == plain.content
    assert int(short.headers["Content-Length"]) == len(short.content) < len(plain.content)
    assert short.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    font = client.get(static("fonts/inter-latin.woff2"), headers=GZIP)
    assert font.status_code == 200 and "Content-Encoding" not in font.headers


def test_pages_are_compressed_and_json_is_not(client: Client) -> None:
    page = client.get("/login", headers=GZIP)
    assert page.headers["Content-Encoding"] == "gzip" and b"Komand" in gzip.decompress(page.content)
    assert "Content-Encoding" not in client.get("/health", headers=GZIP).headers


def test_the_csrf_token_of_a_compressed_page_is_masked_anew_each_time(client: Client) -> None:
    found = [client.get("/login", headers=GZIP) for _ in range(2)]
    tokens = {re.search(rb'csrfmiddlewaretoken" value="(\w+)"', gzip.decompress(page.content))[1] for page in found}
    assert len(tokens) == 2


def test_a_first_visit_of_the_chat_page_loads_less_than_half(client: Client, page: str) -> None:
    addresses = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page))
    sizes = {address: len(client.get(address, headers=GZIP).content) for address in addresses}
    assert all(sizes.values()) and any("inter-latin" in address for address in sizes)
    assert sum(sizes.values()) + len(gzip.compress(page.encode())) < MOST_BYTES, sizes


def test_all_modules_of_the_chat_page_are_loaded_at_once(page: str) -> None:
    preloaded = re.findall(r'rel="modulepreload" href="[^"]*/js/chat/([\w-]+)\.js"', page)
    assert {"composer", "log", "ids", "step-text"} <= set(preloaded) and "main" not in preloaded

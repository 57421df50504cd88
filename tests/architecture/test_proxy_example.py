"""The example of a configuration of a proxy: its log shows no secret."""

import re
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from sessions_app.channels import file_links

EXAMPLE = (Path(settings.BASE_DIR) / "deploy" / "nginx.conf.example").read_text()
SECRET = "abc.def.ghi"


def logged(path: str) -> str:
    """Return the path as the log shows it: by the first pattern of the map that fits."""
    masked = re.search(r"map \$uri \$logged_path \{(.*?)\n\}", EXAMPLE, re.DOTALL)
    assert masked
    for pattern, shown in re.findall(r"~(\S+) (\S+);", masked[1]):
        if found := re.match(pattern, path):
            return shown.replace("$1", found[1])
    return path


def test_its_log_shows_no_link_that_is_a_secret() -> None:
    for path in (
        reverse("login-invitation", args=[SECRET]),
        f"/{file_links.PREFIX}/{SECRET}",
        f"/api/v1/artifact-blobs/{SECRET}/a.txt",
    ):
        assert SECRET not in logged(path)
    assert logged("/chat/new") == "/chat/new"


def test_its_log_shows_no_query_and_no_referrer() -> None:
    form = re.search(r"log_format komand (.*?);", EXAMPLE, re.DOTALL)
    assert form and "access_log /var/log/nginx/komand.access.log komand;" in EXAMPLE
    assert {"$request ", '$request"', "$request_uri", "$args", "$query_string", "$http_referer"}.isdisjoint(
        re.findall(r"\$[a-z_]+[ \"]?", form[1])
    )


def location(path: str) -> str:
    found = re.search(rf"    location {re.escape(path)} {{\n(.*?)\n    }}", EXAMPLE, re.DOTALL)
    assert found
    return found[1]


def test_its_limits_are_wider_than_those_of_one_user() -> None:
    connections = re.search(r"^    limit_conn komand_connections (\d+);$", EXAMPLE, re.MULTILINE)
    rate = re.search(r"zone=komand_requests:10m rate=(\d+)r/s;", EXAMPLE)
    burst = re.search(r"limit_req zone=komand_requests burst=(\d+) nodelay;", location("/"))
    assert connections and rate and burst
    tabs, people = 10, 10  # behind one address
    assert int(connections[1]) >= tabs * people
    assert int(rate[1]) * settings.KOMAND_API_WINDOW_SECONDS >= people * settings.KOMAND_API_LIMIT
    assert int(burst[1]) >= settings.KOMAND_API_LIMIT


def test_its_limit_of_requests_is_not_for_files_and_platforms() -> None:
    assert EXAMPLE.count("limit_req ") == 1
    for path in ("/", settings.STATIC_URL, "/channels/"):
        assert "proxy_pass http://127.0.0.1:8000;" in location(path)
    assert EXAMPLE.index("proxy_buffering off;") < EXAMPLE.index("location /"), "it holds for each location"
    assert re.search(r"client_header_timeout (\d+)s;", EXAMPLE)[1] == str(settings.KOMAND_HEADER_SECONDS)  # type: ignore[index]

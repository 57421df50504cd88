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

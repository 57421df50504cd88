"""deploy/komand.env.example lists every setting that the code reads, and no other."""

import ast
import re
from collections.abc import Iterator

from django.conf import settings

from komand.settings import env
from tests.architecture.source import ROOT, Module, modules

READERS = {"text", "integer", "flag", "listing", "choice", "rate", "secret_file", "days", "pairs"}


def names_read(module: Module) -> Iterator[str]:
    """Yield the variables named in calls such as `env.text("KOMAND_HOST")`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            constants = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
            if function in READERS:
                yield from (
                    text for text in constants if isinstance(text, str) and re.fullmatch("[A-Z]+(_[A-Z]+)+", text)
                )


def test_the_proxy_lets_through_what_may_be_uploaded() -> None:
    proxy = (ROOT / "deploy" / "nginx.conf.example").read_text()
    megabytes = re.search(r"client_max_body_size (\d+)m;", proxy)
    assert megabytes and int(megabytes[1]) * 2**20 >= settings.KOMAND_ARTIFACT_MAX_BYTES


def test_settings_and_their_list_agree() -> None:
    assert all(callable(getattr(env, reader)) for reader in READERS)
    read = {name for module in modules("komand") for name in names_read(module)}
    told = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / "deploy" / "komand.env.example").read_text(), re.MULTILINE))
    undocumented, unread = read - told, told - read
    assert not undocumented, "deploy/komand.env.example needs a line `#NAME=default` for each of these settings"
    assert not unread, "no code reads these settings: remove their lines in deploy/komand.env.example"

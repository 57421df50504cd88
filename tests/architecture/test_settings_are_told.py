"""Every setting that the code reads is told in deploy/komand.env.example, and none that it does not read."""

import re

from tests.architecture.source import ROOT, modules

READING = re.compile(r"""\benv\.[a-z_]+\(\s*(?:"[a-z.]+",\s*)?["']([A-Z_]+)["']|\b(?:text|redis_url)\("([A-Z_]+)"\)""")


def test_settings_and_their_list_agree() -> None:
    read = {name for module in modules("komand") for found in READING.findall(module.text) for name in found if name}
    told = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / "deploy" / "komand.env.example").read_text(), re.MULTILINE))
    assert read == told

"""The document as text."""

import json

import yaml

from komand.openapi import document


def written(kind: str) -> bytes:
    """kind: json or yaml."""
    found = json.dumps(document.build(), ensure_ascii=False, separators=(",", ":"))
    if kind == "json":
        return found.encode()
    # Read back, so that nothing is shared: YAML would write what is used twice as a reference.
    dumped: str = yaml.dump(json.loads(found), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return dumped.encode()

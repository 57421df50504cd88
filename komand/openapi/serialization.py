"""The document as JSON and YAML text."""

import json

import yaml

from komand.openapi import document


def written(kind: str) -> bytes:
    """Return the document as bytes. kind: json or yaml."""
    found = json.dumps(document.build(), ensure_ascii=False, separators=(",", ":"))
    if kind == "json":
        return found.encode()
    # Parsed again, because YAML writes objects that are shared as references.
    dumped: str = yaml.dump(json.loads(found), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return dumped.encode()

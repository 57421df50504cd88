"""The place of files as `STORAGES` has it: the data folder, or a bucket if one is set (docs/operations.md)."""

import sys
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from komand.settings import env

_BUCKET = "KOMAND_S3_BUCKET"


def configuration(bucket: str) -> dict[str, Any]:
    """Return the store of files. bucket: the name of a bucket; empty for the data folder."""
    given = {
        "endpoint_url": env.text("KOMAND_S3_ENDPOINT"),
        "region_name": env.text("KOMAND_S3_REGION"),
        "location": env.text("KOMAND_S3_PREFIX").strip("/"),
        "access_key": env.text("KOMAND_S3_ACCESS_KEY"),
        "secret_key": env.text("KOMAND_S3_SECRET_KEY"),
    }
    options = {name: value for name, value in given.items() if value}
    if not bucket:
        if options:
            raise env.BadSetting(_BUCKET, "must be set if another setting KOMAND_S3_… is")
        return {"BACKEND": "tools_app.storage.file_store.Folder"}
    _check(given)
    return {"BACKEND": "tools_app.storage.bucket.Bucket", "OPTIONS": {"bucket_name": bucket, **options}}


def _check(given: dict[str, str]) -> None:
    endpoint = urlsplit(given["endpoint_url"])
    is_plain = endpoint.scheme in ("http", "https") and endpoint.hostname and not endpoint.username
    if given["endpoint_url"] and not is_plain:
        raise env.BadSetting("KOMAND_S3_ENDPOINT", "must look like https://s3.example.com, without keys")
    if bool(given["access_key"]) != bool(given["secret_key"]):
        raise env.BadSetting("KOMAND_S3_ACCESS_KEY", "and KOMAND_S3_SECRET_KEY must be set together")
    if find_spec("storages") is None or find_spec("boto3") is None:
        raise env.BadSetting(
            _BUCKET, f"needs the packages of the extra s3; run: {sys.executable} -m pip install django-storages boto3"
        )

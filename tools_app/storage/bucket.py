"""Files in a bucket of a server that speaks the protocol of S3. Needs the extra `s3`; loaded by `STORAGES` alone."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from uuid import uuid4

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import File
from storages.backends.s3 import S3Storage

from audit_app.kernel import redact
from audit_app.kernel.errors import NotFound, Unavailable
from tools_app.storage.file_store import FileStore

logger = logging.getLogger(__name__)

_MEMORY_BYTES = 1 << 20  # of a draft; what is longer goes to the disk
_WHOLE_BYTES = 64 << 20  # of a file that is stored by one request: more than any may have by default
_MOST_REMOVED = 1000  # by one request
_AWAY = "Files cannot be stored or read at the moment. Try again in a few minutes; if it stays, tell an operator."
# An answer that does not come holds a row of a session, and on SQLite all writers.
_CONFIG = Config(
    connect_timeout=2,
    read_timeout=15,
    retries={"mode": "standard", "total_max_attempts": 2},
    # Servers other than Amazon's may not know newer checksums.
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class Bucket(FileStore):
    """A bucket, or the part of it whose names begin with the location. It is never asked for addresses of files."""

    def __init__(self, **options: Any) -> None:
        """options: of S3Storage; without keys they are found as boto3 does."""
        transfer = TransferConfig(multipart_threshold=_WHOLE_BYTES, use_threads=False)
        self._storage = S3Storage(client_config=_CONFIG, transfer_config=transfer, **options)
        redact.remember(vars(self._storage)["secret_key"] or "")
        self._name, self._prefix = options["bucket_name"], f"{options['location']}/" if options.get("location") else ""

    def __str__(self) -> str:
        return f"the bucket {self._name}"

    @property
    def _client(self) -> Any:
        """Return the client of all threads. `connection` of the storage would be a new one in each."""
        return self._storage.bucket.meta.client

    def open_draft(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return SpooledTemporaryFile(_MEMORY_BYTES)

    def keep(self, draft: IO[bytes], name: str) -> None:
        with self._reported():
            self._storage.save(name, File(draft))

    def read(self, name: str) -> bytes:
        with self._reported():
            return bytes(self._client.get_object(**self._object(name))["Body"].read())

    def copy(self, source: str, name: str) -> None:
        with self._reported():
            self._client.copy_object(CopySource=self._object(source), **self._object(name))

    def remove(self, *names: str) -> None:
        for start in range(0, len(names), _MOST_REMOVED):
            keys = [{"Key": self._prefix + name} for name in names[start : start + _MOST_REMOVED]]
            with self._reported():
                done = self._client.delete_objects(Bucket=self._name, Delete={"Objects": keys, "Quiet": True})
            if errors := done.get("Errors"):
                logger.error("%s does not delete %d files: %s", self, len(errors), errors[0].get("Message"))
                raise Unavailable(_AWAY)

    def list_files(self, folder: str) -> Iterator[tuple[str, float]]:
        with self._reported():
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._name, Prefix=f"{self._prefix}{folder}/"
            ):
                for found in page.get("Contents", ()):
                    name = found["Key"].removeprefix(self._prefix)
                    if not {"", ".", ".."} & set(name.split("/")):  # of somebody else
                        yield name, found["LastModified"].timestamp()

    def find_missing(self, names: Iterable[str]) -> list[str]:
        wanted = list(names)
        folders = {name.partition("/")[0] for name in wanted}
        known = {name for folder in folders for name, _ in self.list_files(folder)}
        return [name for name in wanted if name not in known]

    def has_room(self, least_free_bytes: int) -> bool:
        return True

    def check(self) -> None:
        name = f"checks/{uuid4()}"
        self.write(name, b"check")
        if self.find_missing([name]) or self.read(name) != b"check":
            raise Unavailable(_AWAY)
        self.remove(name)

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._name, "Key": self._prefix + name}

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Raise NotFound for a file that is not there, and Unavailable for every other error, with its cause."""
        try:
            yield
        except (BotoCoreError, Boto3Error, ClientError) as error:
            if isinstance(error, ClientError) and error.response["Error"].get("Code") == "NoSuchKey":
                raise NotFound("The file's content is not in the bucket.") from None
            logger.error("%s cannot be used: %s", self, redact.masked_text(str(error)))
            raise Unavailable(_AWAY) from error

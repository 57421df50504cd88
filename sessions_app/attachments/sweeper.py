"""The attachments' part of the reaper: orphaned claims, files that were not fetched in time, old and unsent files."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app import retention
from audit_app.kernel.liveness import Observer
from audit_app.retention import days_ago
from sessions_app import hot_queries
from sessions_app.attachments import records, storage
from sessions_app.models import Attachment, UserFile

UNSENT_DAYS = 1
# The fetcher itself ends a file whose time is over, unless the database is unavailable at that moment.
_GRACE = timedelta(seconds=5)
SWEPT = (hot_queries.LIST_WAITING_FILES,)


def sweep(observer: Observer) -> None:
    """Do one pass. Called about once a second by the reaper, if SWEPT finds a row; safe to run concurrently."""
    found = hot_queries.LIST_WAITING_FILES.fetch()
    dead = observer.dead({row.owner for row in found if row.owner})
    for row in found:
        if row.until + _GRACE < timezone.now():
            if records.mark_failed(row, row.owner, "it took too long"):
                storage.discard(storage.path_of(row.id))
        elif row.owner in dead:
            records.unclaim(row)
            records.file_nudge.send_now()


class OldFiles(retention.Rule):
    """Deletes files. Their text stays: it is a part of the conversation."""

    name = "files of attachments"
    kept_for = f"{settings.KOMAND_ATTACHMENT_DAYS} days"

    def prune(self, limit: int) -> int:
        old = list(self._old().order_by("created_at")[:limit])
        storage.drop(*[row.path for row in old])
        with transaction.atomic():
            Attachment.objects.filter(pk__in=[row.pk for row in old]).update(path="")
        return len(old)

    def count(self) -> int:
        return self._old().count()

    @staticmethod
    def _old() -> QuerySet[Attachment]:
        edge = days_ago(settings.KOMAND_ATTACHMENT_DAYS)
        return Attachment.objects.filter(status="stored", created_at__lt=edge).exclude(path="")


class UnsentFiles(retention.Rule):
    """Deletes uploaded files whose message was never sent."""

    name = "uploaded files without a message"
    kept_for = f"{UNSENT_DAYS} day"

    def prune(self, limit: int) -> int:
        old = list(self._old().order_by("created_at")[:limit])
        if not old:
            return 0
        storage.check()  # a row must not go before its file can
        with transaction.atomic():
            Attachment.objects.filter(pk__in=[row.pk for row in old], turn=None).delete()
        sent = set(Attachment.objects.filter(pk__in=[row.pk for row in old]).values_list("pk", flat=True))
        storage.drop(*[row.path for row in old if row.pk not in sent])
        return len(old)

    def count(self) -> int:
        return self._old().count()

    @staticmethod
    def _old() -> QuerySet[Attachment]:
        return Attachment.objects.filter(turn=None, created_at__lt=days_ago(UNSENT_DAYS))


class ExpiredFiles(retention.Rule):
    """Deletes files of users whose time is over."""

    name = "files that users keep"
    kept_for = f"until they expire, {settings.KOMAND_ATTACHMENT_DAYS} days at most"

    def prune(self, limit: int) -> int:
        old = list(self._old().order_by("expires_at")[:limit])
        if old:
            storage.drop(*[row.path for row in old])
            with transaction.atomic():
                UserFile.objects.filter(pk__in=[row.pk for row in old]).delete()
        return len(old)

    def count(self) -> int:
        return self._old().count()

    @staticmethod
    def _old() -> QuerySet[UserFile]:
        return UserFile.objects.filter(expires_at__lte=timezone.now())


retention.register(OldFiles())
retention.register(UnsentFiles())
retention.register(ExpiredFiles())

"""The full-text index and its progress."""

from django.db import models


class SearchEntry(models.Model):
    """An object that the full-text search finds. See `full_text.index`, its only reader and writer.

    On PostgreSQL it has another column, `vector`; on SQLite its words are in the table `komand_search_words`.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Position in the index: higher for newer objects.")
    object_id = models.UUIDField(unique=True)
    scope = models.CharField(max_length=40, help_text="Digest of the set of objects that are searched together.")
    packed = models.BinaryField(null=True, help_text="Compressed words of the object, on SQLite only.")

    class Meta:
        db_table = "komand_search_entry"
        verbose_name_plural = "search entries"

    def __str__(self) -> str:
        return str(self.object_id)


class SearchProgress(models.Model):
    """The progress of indexing one kind of objects in the background. Ids: those of objects, which rise with time."""

    kind = models.CharField(max_length=40, primary_key=True)
    newest = models.UUIDField(help_text="All objects up to this one are indexed, except those below `oldest`.")
    oldest = models.UUIDField(help_text="All objects from this one on are indexed.")
    is_complete = models.BooleanField(default=False, help_text="All older objects are indexed.")

    class Meta:
        db_table = "komand_search_progress"
        verbose_name_plural = "search progress"

    def __str__(self) -> str:
        return self.kind

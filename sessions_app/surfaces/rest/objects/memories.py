"""The queries and bodies of memories and of the search."""

from rest_framework.serializers import BooleanField, CharField, IntegerField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer


class SearchQuery(CamelCaseSerializer):
    query = CharField(max_length=500, help_text='Words, "phrases" and -exclusions.')
    limit = IntegerField(min_value=1, max_value=100, default=20)
    cursor = CharField(max_length=60, default="", allow_blank=True, help_text="`meta.nextCursor` of the page before.")


class DeleteMemoriesQuery(CamelCaseSerializer):
    agent_id = CharField(max_length=120, default="", allow_blank=True, help_text="Empty: of all agents.")


class MemoryQuery(DeleteMemoriesQuery):
    query = CharField(max_length=500, default="", allow_blank=True, help_text='Words, "phrases" and -exclusions.')
    limit = IntegerField(min_value=1, max_value=200, default=50)
    cursor = CharField(max_length=100, default="", allow_blank=True, help_text="`meta.nextCursor` of the page before.")


class MemoryBody(CamelCaseSerializer):
    """A change of a memory; a missing field stays."""

    text = CharField(required=False, trim_whitespace=False, help_text="At most 100 KB. You then have said it.")
    is_pinned = BooleanField(required=False)

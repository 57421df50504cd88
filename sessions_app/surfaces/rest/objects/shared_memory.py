"""Shared memory over REST: the fields of requests and answers."""

from rest_framework.serializers import CharField, ChoiceField, IntegerField, JSONField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp, check_storable
from sessions_app.surfaces.rest.envelope import PageQuery
from tools_app.storage.shared_memory import MAX_KEY_CHARACTERS

_SPACES = ("network", "run")
_SPACE_HELP = "Owner of the memory. Default: the network of the run, else its tree of runs."


class PatternQuery(PageQuery):
    pattern = CharField(max_length=MAX_KEY_CHARACTERS, default="*", help_text="Pattern of keys, such as `research.*`.")


class SpaceQuery(CamelCaseSerializer):
    space = ChoiceField(choices=_SPACES, required=False, help_text=_SPACE_HELP)


class SpacePatternQuery(PatternQuery, SpaceQuery): ...


class SharedValueBody(CamelCaseSerializer):
    value = JSONField(allow_null=True, validators=[check_storable], help_text="At most 100 KB.")
    expected_version = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Expected version: refuse if it differs. 0: only create.",
    )


class SharedValueOut(ObjectSerializer):
    key = CharField()
    value = JSONField(allow_null=True)
    version = IntegerField(help_text="Version, raised by each write.")
    writer = CharField(help_text="Writer of the value: an agent and its workstream or task, or user:ID.")
    updated_at = Timestamp()

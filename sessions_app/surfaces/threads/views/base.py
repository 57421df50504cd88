"""Base class of this surface's views: admission, bodies, queries, threads."""

from typing import Any, TypeVar

from django.http import QueryDict
from rest_framework import serializers

from sessions_app.access import access_session
from sessions_app.models import Session
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.threads import errors
from sessions_app.surfaces.threads.admission import admit

S = TypeVar("S", bound=serializers.Serializer[Any])


class ThreadsView(PlainView):
    """One resource of this surface."""

    admit = staticmethod(admit)

    def checked(self, serializer_class: type[S], data: Any, *, partial: bool = False) -> S:
        """Return a serializer with valid data. Raises Unprocessable."""
        if isinstance(data, QueryDict):
            data = _values_of(data, serializer_class)
        return errors.checked(serializer_class(data=data, partial=partial))

    def thread(self, thread_id: str) -> Session:
        """Return the session of a thread. Raises NotFound."""
        return access_session(self.principal.user, thread_id)


def _values_of(given: QueryDict, serializer_class: type[S]) -> dict[str, Any]:
    """Return the values of query parameters. In a QueryDict, DRF takes a missing boolean for false."""
    fields = serializer_class().fields
    lists = {name for name, field in fields.items() if isinstance(field, serializers.ListField)}
    return {**given.dict(), **{name: given.getlist(name) for name in lists & given.keys()}}

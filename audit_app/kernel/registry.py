"""One registry class for every extension point: tools, providers, channels, event types."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from audit_app.kernel.errors import NotFound

T = TypeVar("T")


class Registry(Generic[T]):
    """Named objects of one kind."""

    def __init__(self, noun: str, name_of: Callable[[T], str]) -> None:
        self._noun = noun
        self._name_of = name_of
        self._items: dict[str, T] = {}

    def register(self, item: T) -> T:
        """Add an object and return it. Raises ValueError for a name that another object has."""
        name = self._name_of(item)
        if name in self._items and self._items[name] is not item:
            raise ValueError(f"{self._noun} {name!r} is registered twice")
        self._items[name] = item
        return item

    def find(self, name: str) -> T | None:
        return self._items.get(name)

    def get(self, name: str) -> T:
        """Return the object of this name. Raises NotFound, with the known names."""
        item = self._items.get(name)
        if item is None:
            known = ", ".join(sorted(self._items)) or "none"
            raise NotFound(f"There is no {self._noun} {name!r}. Known: {known}.")
        return item

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._items))

    def __iter__(self) -> Iterator[T]:
        return iter([self._items[name] for name in self.names()])

    @contextmanager
    def override(self, *items: T, without: Collection[str] = ()) -> Iterator[None]:
        """Add or replace items, and leave some out by name, while the context lasts. For tests."""
        before = self._items
        added = {self._name_of(item): item for item in items}
        self._items = {name: item for name, item in {**before, **added}.items() if name not in without}
        try:
            yield
        finally:
            self._items = before

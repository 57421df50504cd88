"""The model providers, by dotted path: a provider's module (and its SDK) loads on first use, in workers only."""

_paths: list[str] = []


def register(path: str) -> None:
    _paths.append(path)

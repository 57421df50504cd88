"""What clients call an artifact: by its path in the run, or with the run's folder before it. Pure."""

from uuid import UUID


def storage_path(run_id: UUID | str, path: str) -> str:
    """The path with the run's folder."""
    return f"agents/{run_id}/{path}"


def own_path(run_id: UUID | str, path: str) -> str:
    """The path in the run, however it was spelled."""
    path = path.lstrip("/")
    return path.removeprefix(f"agents/{run_id}/")


def split_storage_path(path: str) -> tuple[str, str]:
    """(run, path in it) of a path with the run's folder; empty when it is none."""
    folder, _, rest = path.lstrip("/").partition("/")
    run_id, _, own = rest.partition("/")
    return (run_id, own) if folder == "agents" and own else ("", "")

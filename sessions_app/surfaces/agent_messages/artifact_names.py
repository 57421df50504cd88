"""The two names of an artifact: its path in the run, and its storage path, which begins with the run's folder. Pure."""

from uuid import UUID


def storage_path(run_id: UUID | str, path: str) -> str:
    return f"agents/{run_id}/{path}"


def own_path(run_id: UUID | str, path: str) -> str:
    """Return the path in the run, for either name."""
    return path.lstrip("/").removeprefix(storage_path(run_id, ""))


def split_storage_path(path: str) -> tuple[str, str]:
    """Return (run id, path in the run) of a storage path, or ("", "") if it is none."""
    folder, _, rest = path.lstrip("/").partition("/")
    run_id, _, own = rest.partition("/")
    return (run_id, own) if folder == "agents" and own else ("", "")

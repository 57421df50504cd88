"""Readers of the environment and the data folder. Settings are KOMAND_ variables; an invalid value stops the start.

Imports no Django: the supervisor reads the same values.
"""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

# The user of the embedded Valkey and the file of its password in <data>/secrets.
VALKEY_USER, VALKEY_SECRET = "komand", "valkey.key"
# How long a network that loses packets may go unnoticed; `?name=value` in DATABASE_URL sets another limit.
POSTGRESQL_LIMITS = {
    "connect_timeout": 3,  # seconds
    "tcp_user_timeout": 5000,  # milliseconds until what was sent is received
    "keepalives_idle": 10,  # seconds without traffic until the first probe, as while a statement runs long
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


class BadSetting(SystemExit):
    """An invalid value of a setting. Printed as one line, exit code 1."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"komand: {name} {problem}")


def text(name: str, default: str = "") -> str:
    """Return a value, or the content of the file that `NAME_FILE` names. Empty means not set."""
    file = os.environ.get(f"{name}_FILE")
    if file:
        try:
            return Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(f"{name}_FILE", f"cannot be read: {error}") from error
    return os.environ.get(name) or default


def integer(name: str, default: int, *, least: int = 0) -> int:
    raw = os.environ.get(name, "")
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise BadSetting(name, f"must be a whole number, not {raw!r}") from None
    if value < least:
        raise BadSetting(name, f"must be at least {least}, not {value}")
    return value


def days(name: str, default: int, *, least: int) -> int:
    """Return a retention period in days: 0 for ever, else at least the minimum."""
    value = integer(name, default)
    if 0 < value < least:
        raise BadSetting(name, f"must be 0 (kept without a limit) or at least {least} days, not {value}")
    return value


def flag(name: str, default: bool = False) -> bool:
    raw = os.environ.get(name, "").lower()
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off"):
        return False
    if raw:
        raise BadSetting(name, f"must be true or false, not {raw!r}")
    return default


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    """Return one of the given values."""
    value = text(name) or default
    if value not in choices:
        raise BadSetting(name, f"must be one of {', '.join(choices)}, not {value!r}")
    return value


def listing(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in os.environ.get(name, default).split(",") if item.strip()]


def pairs(name: str) -> list[tuple[str, str]]:
    """Return pairs written as `left=right,left=right`. Spaces around each side do not count."""
    found = [item.partition("=") for item in listing(name)]
    if any(not (left.strip() and right.strip()) for left, _, right in found):
        raise BadSetting(name, "must look like operators=Operator,admins=Administrator")
    return [(left.strip(), right.strip()) for left, _, right in found]


def rate(name: str, default: str) -> tuple[int, int]:
    """Return a rate written as `100/60`: requests and seconds."""
    raw = os.environ.get(name) or default
    count, slash, seconds = raw.partition("/")
    if not (slash and count.isdigit() and seconds.isdigit() and int(count) and int(seconds)):
        raise BadSetting(name, f"must look like 100/60 (requests/seconds), not {raw!r}")
    return int(count), int(seconds)


def own_hosts() -> list[str]:
    """Return the names under which a browser of this machine, or at the address of KOMAND_HOST, reaches `up`."""
    host = text("KOMAND_HOST").strip("[]")
    named = [f"[{host}]" if ":" in host else host] if host not in ("", "0.0.0.0", "::") else []  # noqa: S104 - compared
    return list(dict.fromkeys(["127.0.0.1", "localhost", "[::1]", *named]))


def data_dir() -> Path:
    return Path(text("KOMAND_DATA_DIR", "var")).expanduser().resolve()


def sockets_path() -> Path:
    """Return the Unix socket at which the process `sockets` serves the runs workers of its host."""
    return Path(text("KOMAND_SOCKETS") or data_dir() / "sockets.sock")


def secret_file(name: str, variable: str, length: int = 48) -> str:
    """Return a secret: the variable if set, else `<data>/secrets/<name>`, generated on first use (mode 0600)."""
    return text(variable) or stored_secret(data_dir(), name, length)


def stored_secret(folder: Path, name: str, length: int = 48) -> str:
    """Return the secret `<folder>/secrets/<name>`, generated on first use (mode 0600) from `length` random bytes."""
    path = folder / "secrets" / name
    try:
        if not path.exists():
            _make_secret(path, secrets.token_urlsafe(length))
        secret = path.read_text().strip()
    except OSError as error:
        raise BadSetting("KOMAND_DATA_DIR", f"cannot keep the secret {path}: {error.strerror}") from error
    if not secret:
        raise BadSetting("KOMAND_DATA_DIR", f"has a damaged secret: {path} is empty; restore the file from a backup")
    return secret


def _make_secret(path: Path, value: str) -> None:
    """Create the file atomically, once: several processes may start concurrently, and the power may fail."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Processes of several containers may have the same process id.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()


def embedded_socket() -> str:
    """Return the socket of the embedded Valkey, as the supervisor wrote it, else the default path."""
    pointer = data_dir() / "valkey" / "socket"
    try:
        return pointer.read_text().strip()
    except OSError:
        return str(data_dir() / "valkey" / "valkey.sock")


def _url(name: str, schemes: tuple[str, ...], example: str) -> str:
    """Return a URL with one of these schemes; empty if not set. Errors do not quote it: it may hold a password."""
    url = text(name)
    scheme, separator, _ = url.partition("://")
    if url and not (separator and scheme in schemes):
        raise BadSetting(name, f"must look like {example}")
    return url


def database_url() -> str:
    """Return the URL of a PostgreSQL server; empty for SQLite in the data folder."""
    example = "postgresql://user:password@host:5432/name; leave it unset for SQLite in the data folder"
    return _url("DATABASE_URL", ("postgresql", "postgres", "psql", "pgsql"), example)


def is_embedded() -> bool:
    """Return whether the supervisor runs an embedded Valkey: REDIS_URL is not set."""
    return not text("REDIS_URL")


def redis_url() -> str:
    """Return REDIS_URL in redis-py's form; the embedded server's socket if it is not set."""
    given = _url("REDIS_URL", ("redis", "rediss", "unix"), "redis://:password@host:6379/0")
    return given or f"unix://{_embedded_login()}{embedded_socket()}?db=0"


def embedded_users(folder: Path) -> Path:
    """Return the path of the embedded Valkey's ACL file."""
    return folder / "valkey" / "users.acl"


def _embedded_login() -> str:
    """Return `user:password@` for the embedded Valkey; empty if a supervisor of a release without passwords runs it."""
    folder = data_dir()
    known = embedded_users(folder).exists()
    return f"{VALKEY_USER}:{stored_secret(folder, VALKEY_SECRET)}@" if known else ""


def broker_url() -> str:
    """Return the same server in kombu's form: a socket is `redis+socket://` there."""
    url = redis_url()
    if url.startswith("unix://"):
        path, _, query = url.removeprefix("unix://").partition("?")
        database = dict(part.split("=", 1) for part in query.split("&") if "=" in part).get("db", "0")
        return f"redis+socket://{path}?virtual_host={database}"
    return url

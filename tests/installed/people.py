"""Users of an installation, each with an API key."""

import json
from dataclasses import dataclass

from tests.installed.installation import Installation

_PASSWORD = "a-long-pass-phrase-7"
_ADD = """
import json
from django.contrib.auth.models import User
from sessions_app.identity.api_keys import create_api_key
keys = {}
for name in %s:
    user, _ = User.objects.get_or_create(username=name, email=f"{name}@localhost")
    user.set_password("%s")
    user.save()
    keys[name] = create_api_key(user, "tests", scopes=["all"]).key
print(json.dumps(keys))
"""


@dataclass(frozen=True)
class Person:
    name: str
    key: str
    password: str = _PASSWORD


def add_people(installation: Installation, names: list[str]) -> dict[str, Person]:
    """Add users without rights. Return them by their names."""
    done = installation.manage("shell", "-v", "0", "-c", _ADD % (names, _PASSWORD))
    assert done.returncode == 0, done.stderr
    keys = json.loads(done.stdout.splitlines()[-1])
    return {name: Person(name, keys[name]) for name in names}

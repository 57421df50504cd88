"""The credentials that a tool call uses. Pure."""

from dataclasses import dataclass

from audit_app.kernel import redact

INSTALLATION = "installation"  # the owner of credentials that belong to no user


@dataclass(frozen=True)
class CredentialUse:
    """Credentials that a call uses. All of them have one owner.

    owner: `user:<id>` or INSTALLATION; any other actor owns none.
    url: URL that they are sent to.
    has_fixed_host: the tool's declaration names the host, the arguments of the call do not.
    """

    names: tuple[str, ...] = ()
    owner: str = ""
    url: str = ""
    has_fixed_host: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names with their owner, as patterns name them."""
        return tuple(f"{self.owner}/{name}" for name in self.names)


NO_CREDENTIALS = CredentialUse()


def find_references(text: str) -> tuple[str, ...]:
    """Return the names that a text refers to as `{{credential:NAME}}`, each once, in order."""
    return tuple(dict.fromkeys(redact.CREDENTIAL_REFERENCE.findall(text)))

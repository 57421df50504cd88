"""A TLS proxy before a web server, with the headers that `deploy/nginx.conf.example` sets."""

import asyncio
import datetime
import ssl
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.relay import Relay

_HOST = "localhost"
_CLIENT = b"203.0.113.7"  # the address of every client: one of documentation


class TlsProxy(Relay):
    """A proxy at a free port of localhost. certificate: the file that its clients trust; target: port of the server."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self.target = 0
        self._write_certificate()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, self._key)

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self.port}"

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one request, or one WebSocket, and close the connection."""
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
            to_server.write(_forwarded(head))
            await asyncio.gather(self.copy(reader, to_server), self.copy(from_server, writer))
        writer.close()

    def _write_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _HOST)])
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(_HOST)]), critical=False)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        self._key.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


def _forwarded(head: bytes) -> bytes:
    """Return the head of a request with the proxy's headers. A connection carries one request, or a WebSocket."""
    first, *lines = head[:-4].split(b"\r\n")
    is_upgrade = any(line.lower().startswith(b"upgrade:") for line in lines)
    replaced = (b"x-forwarded-for:", b"x-forwarded-proto:", *(() if is_upgrade else (b"connection:", b"keep-alive:")))
    kept = [line for line in lines if not line.lower().startswith(replaced)]
    added = [b"X-Forwarded-For: " + _CLIENT, b"X-Forwarded-Proto: https"]
    return b"\r\n".join([first, *kept, *added, *([] if is_upgrade else [b"Connection: close"]), b"", b""])

"""Web servers on loopback whose responses a test controls, byte by byte if needed."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Answer = Callable[[socket.socket, str, dict[str, str]], None]


class WebServer:
    """A server. answers: by path; requests: (path, headers) received; connections: number of connections."""

    def __init__(self, answers: dict[str, Answer], tls: ssl.SSLContext | None) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self._answers = answers
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.pair = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(connection, server_side=True) if self._tls else connection as secured:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = secured.recv(4096)
                    if not piece:
                        return
                    head += piece
                first, *lines = head.decode().split("\r\n")
                path = first.split(" ")[1]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
                self.requests.append((path, headers))
                self._answers[path.partition("?")[0]](secured, path, headers)
        except (OSError, KeyError):
            connection.close()


@contextmanager
def web_server(answers: dict[str, Answer], tls: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    server = WebServer(answers, tls)
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes | str = b"", *, status: str = "200 OK", **headers: str) -> Answer:
    """Return a complete response; underscores in header names become dashes."""
    data = body.encode() if isinstance(body, str) else body

    def send(connection: socket.socket, path: str, request_headers: dict[str, str]) -> None:
        fields = {"content-length": str(len(data)), "connection": "close"}
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data)

    return send


def redirect(location: str, status: str = "302 Found") -> Answer:
    return answer(status=status, location=location)


class Authority:
    """A certificate authority of one test run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("test authority", self._key, is_authority=True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, host: str) -> ssl.SSLContext:
        """The TLS side of a server that proves to be `host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        file = self._folder / f"{host}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + self._sign(host, key).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> x509.Certificate:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("test authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())

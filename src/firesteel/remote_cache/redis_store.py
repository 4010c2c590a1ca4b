"""Redis as a store of cache entries: a client of the two commands that it takes, and no more.

    redis://[[user]:password@]host[:port][/database][?prefix=firesteel&ttl=604800]

``rediss`` is the same over TLS. ``ttl`` is for how many seconds an entry is kept; without it, how full Redis may
become and what goes first is its own configuration (``maxmemory``, ``maxmemory-policy allkeys-lru``).
"""

from __future__ import annotations

import socket
import time
from urllib.parse import parse_qs, unquote, urlsplit

from ..locks import new_lock

LONGEST_LINE = 1 << 16


class RedisError(OSError):
    """What the server answers is an error, or no Redis answers."""


class RedisStore:
    """Entries as strings under ``prefix:name``; one connection, which is made again after an error."""

    def __init__(self, url: str, timeout: float, longest: int = 64 << 20) -> None:
        try:
            parts = urlsplit(url)
            asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
            self.address = parts.hostname or "localhost", parts.port or 6379
            self.database = int(parts.path.strip("/") or 0)
            self.ttl = int(asked.pop("ttl", ["0"])[0])
        except ValueError as error:
            raise ValueError(f"the URL must be redis://host:port/database: {error}") from None
        self.prefix = asked.pop("prefix", ["firesteel"])[0]
        if asked:
            raise ValueError(f"the URL has options that are not known: {', '.join(asked)}")
        self.user, self.password = unquote(parts.username or ""), unquote(parts.password or "")
        self.encrypted = parts.scheme == "rediss"
        self.timeout, self.longest = timeout, longest
        self.lock = new_lock()
        self.connection: socket.socket | None = None
        self.buffer = b""
        self.end = 0.0

    def get(self, key: str) -> bytes | None:
        """The bytes of that name."""
        answer = self._ask(b"GET", self._name(key))
        if answer is not None and not isinstance(answer, bytes):
            raise RedisError("the answer to GET is no string")
        return answer

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes."""
        self._ask(b"SET", self._name(key), data, *([b"EX", b"%d" % self.ttl] if self.ttl else []))

    def _name(self, key: str) -> bytes:
        return f"{self.prefix}:{key}".encode()

    def _ask(self, *words: bytes) -> bytes | int | None:
        with self.lock:
            self.end = time.monotonic() + self.timeout
            try:
                if self.connection is None:
                    self._connect()
                return self._command(*words)
            except BaseException:
                self._close()  # in the middle of an answer it is of no more use
                raise

    def _connect(self) -> None:
        connection = socket.create_connection(self.address, timeout=self.timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.encrypted:
            import ssl

            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=self.address[0])
        self.connection, self.buffer = connection, b""
        if self.password:
            self._command(b"AUTH", *([self.user.encode()] if self.user else []), self.password.encode())
        if self.database:
            self._command(b"SELECT", b"%d" % self.database)

    def _close(self) -> None:
        connection, self.connection, self.buffer = self.connection, None, b""
        if connection is not None:
            connection.close()

    def _command(self, *words: bytes) -> bytes | int | None:
        assert self.connection is not None
        request = b"".join((b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)))
        self.connection.settimeout(self._left())
        self.connection.sendall(request)
        return self._answer()

    def _answer(self) -> bytes | int | None:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RedisError(rest.decode(errors="replace"))
        try:
            number = int(rest)
        except ValueError:
            raise RedisError("this is no Redis") from None
        if kind == b":":
            return number
        if kind != b"$":
            raise RedisError("this is no Redis")
        if number < 0:
            return None
        if number > self.longest:
            raise RedisError(f"an entry of {number} bytes is too large")
        while len(self.buffer) < number + 2:
            self._receive()
        data, self.buffer = self.buffer[:number], self.buffer[number + 2:]
        return data

    def _line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > LONGEST_LINE:
                raise RedisError("this is no Redis")
            self._receive()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def _receive(self) -> None:
        assert self.connection is not None
        self.connection.settimeout(self._left())
        received = self.connection.recv(1 << 18)
        if not received:
            raise RedisError("the connection was closed")
        self.buffer += received

    def _left(self) -> float:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        return left

"""A proxy in front of PostgreSQL that can refuse, reset, swallow, or cut a connection at a statement or a byte."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

STATEMENT_ENDS = (b"S", b"Q")  # Sync and simple Query: the server answers each with ReadyForQuery
READY = b"Z"
NOTIFICATION = b"A"


@dataclass
class Cut:
    """Cut the connection at a statement: the n-th that has `text` in it. `reply` lets the server do it first.

    `passing` is the share of its bytes, or of those of its answer, that get through before. `meanwhile` is done before
    anybody can notice. With an `error` that is the answer, and the connection stays; `spare` lets the statement and its
    answer pass.
    """

    text: bytes = b""
    nth: int = 1
    reply: bool = False
    passing: float = 0.0
    error: str = ""
    spare: bool = False
    meanwhile: Callable[[], object] | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def head(self, data: bytes) -> bytes:
        return data[: int(len(data) * self.passing)]


class Proxy:
    """Listens on a port of its own until closed."""

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.mode = "pass"  # or "refuse", or "swallow": accept and answer nothing, and forward nothing
        self.delay = 0.0  # seconds on the way of each statement to the server
        self.deaf = False  # keeps notifications to itself, as a pooler in transaction mode does
        self.cut: Cut | None = None
        self.statements: list[bytes] = []
        self.lock = threading.Lock()
        self.links: set[Link] = set()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                if self.mode == "refuse":
                    client.close()
                    continue
                try:
                    link = Link(self, client)
                except OSError:  # there is no server at this moment
                    client.close()
                    continue
                with self.lock:
                    self.links.add(link)
                link.start()

    def arm(self, cut: Cut) -> Cut:
        with self.lock:
            self.cut, self.statements = cut, []
        return cut

    def heard(self, statement: bytes) -> Cut | None:
        """The cut that is due at this statement."""
        with self.lock:
            self.statements.append(statement)
            cut = self.cut
            if cut is None or cut.text not in statement:
                return None
            cut.nth -= 1
            if cut.nth > 0:
                return None
            self.cut = None
            return cut

    def reset_all(self) -> None:
        """Every connection breaks, with RST."""
        with self.lock:
            links = list(self.links)
        for link in links:
            link.reset()

    def close(self) -> None:
        self.mode = "refuse"
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.reset_all()


class Link:
    """One connection: two threads, one for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy, self.client = proxy, client
        self.server = socket.create_connection(("127.0.0.1", proxy.server_port))
        self.cut_at_ready: Cut | None = None
        self.in_transaction = False

    def start(self) -> None:
        threading.Thread(target=self._run, args=(self._forward_requests,), daemon=True).start()
        threading.Thread(target=self._run, args=(self._forward_replies,), daemon=True).start()

    def _run(self, forward) -> None:
        with suppress(OSError, ValueError, struct.error):
            forward()
        self.reset()

    def _forward_requests(self) -> None:
        reader = self.client.makefile("rb")
        self.server.sendall(startup(reader))
        statement = b""
        batch = b""
        while True:
            kind, message = read_message(reader)
            batch += message
            statement += message
            if kind not in STATEMENT_ENDS:
                if kind == b"X":
                    return
                continue
            cut = self.proxy.heard(statement)
            time.sleep(self.proxy.delay)
            if cut is None or cut.reply:
                self.cut_at_ready = cut
                self._pass_on(self.server, batch)
            else:
                self._pass_on(self.server, cut.head(batch))
                if self._cut(cut):
                    self._pass_on(self.server, batch)
            statement = batch = b""

    def _forward_replies(self) -> None:
        reader = self.server.makefile("rb")
        withheld = b""
        while True:
            kind, message = read_message(reader)
            if self.cut_at_ready is not None:
                withheld += message
                if kind == READY:
                    self._pass_on(self.client, self.cut_at_ready.head(withheld))
                    self._cut(self.cut_at_ready)
                    self.cut_at_ready, withheld = None, b""
                continue
            if kind == READY:
                self.in_transaction = message[5:6] != b"I"
            if kind != NOTIFICATION or not self.proxy.deaf:
                self._pass_on(self.client, message)

    def _pass_on(self, to: socket.socket, data: bytes) -> None:
        if self.proxy.mode != "swallow":
            to.sendall(data)

    def _cut(self, cut: Cut) -> bool:
        """Whether the statement is to be passed on all the same."""
        if cut.meanwhile:
            cut.meanwhile()
        if cut.error:
            self.client.sendall(refusal(cut.error, in_transaction=self.in_transaction))
        elif not cut.spare:
            self.reset()
        cut.done.set()
        return cut.spare

    def reset(self) -> None:
        with self.proxy.lock:
            self.proxy.links.discard(self)
        for end in (self.client, self.server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def refusal(code: str, *, in_transaction: bool) -> bytes:
    """The answer of a server that refuses a statement."""
    fields = {b"S": "ERROR", b"V": "ERROR", b"C": code, b"M": "refused by the proxy"}
    body = b"".join(kind + text.encode() + b"\0" for kind, text in fields.items()) + b"\0"
    status = b"E" if in_transaction else b"I"
    return b"E" + struct.pack("!i", len(body) + 4) + body + READY + struct.pack("!i", 5) + status


def startup(reader) -> bytes:
    """The first message has no kind. Clients ask for no encryption, whose negotiation would come before it."""
    size = reader.read(4)
    return size + reader.read(struct.unpack("!i", size)[0] - 4)


def read_message(reader) -> tuple[bytes, bytes]:
    head = reader.read(5)
    if len(head) < 5:
        raise ValueError("the other side is gone")
    body = reader.read(struct.unpack("!i", head[1:])[0] - 4)
    return head[:1], head + body

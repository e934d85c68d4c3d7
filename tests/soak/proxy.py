"""`python -m tests.soak.proxy <port>`: a proxy to that port, told over standard input to reset or to swallow.

It says on which port it listens, and ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from contextlib import suppress

NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    def __init__(self, port: int) -> None:
        self.port = port
        self.open = asyncio.Event()
        self.open.set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        server = await asyncio.start_server(self.link, "127.0.0.1", 0)
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while command := (await commands.readline()).decode().strip():
            {"reset": self.reset, "swallow": self.open.clear, "pass": self.open.set}[command]()
        os._exit(0)  # without a word about the connections that are still open

    async def link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            self.break_off(writer)
            return
        self.writers |= {writer, to_server}
        await asyncio.gather(self.pump(reader, to_server), self.pump(from_server, writer), return_exceptions=True)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            self.writers.discard(writer)
            writer.close()

    def reset(self) -> None:
        for writer in list(self.writers):
            self.break_off(writer)
        self.writers.clear()

    def break_off(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # closed already
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(Proxy(int(sys.argv[1])).serve())

"""Signal handling: signals are noted by their handlers and dealt with in the supervisor's loop."""

import ctypes
import signal
import socket
import sys
from contextlib import suppress

HANDLED = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD}
PR_SET_PDEATHSIG = 1


def send_when_parent_ends(number: int) -> None:
    """Let the kernel send this process a signal when its parent ends, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


class SignalInbox:
    """The signals that came in; its socket becomes readable with each, so that a loop that waits wakes up."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.socket, self.sender = socket.socketpair()
        self.socket.settimeout(0)
        self.sender.settimeout(0)

    def install_handlers(self) -> None:
        signal.set_wakeup_fd(self.sender.fileno(), warn_on_full_buffer=False)
        # Whatever was inherited: shells and CI runners start background jobs with SIGINT ignored. But nohup asks for
        # SIGHUP to be ignored, when its terminal is closed.
        is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in HANDLED - {signal.SIGHUP} if is_nohup else HANDLED:
            signal.signal(number, lambda number, _: self.received.append(number))

    def clear_socket(self) -> None:
        with suppress(BlockingIOError):
            self.socket.recv(4096)

    def take(self) -> list[int]:
        received, self.received[:] = list(self.received), []
        return received

    def close(self) -> None:
        self.socket.close()
        self.sender.close()

    @property
    def asks_to_stop(self) -> bool:
        return signal.SIGTERM in self.received or signal.SIGINT in self.received

"""What a command writes: kept within bounds, head and tail, and told on while it comes."""

from __future__ import annotations

import codecs
import inspect
import os
import sys
from collections.abc import Callable
from typing import Literal, TypeAlias, cast

import trio

__all__ = ["HeadTail", "OnOutput", "Recorder", "Stream"]

Stream: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[str, Stream], object]

_CHUNK = 65_536  # bytes; what a pipe holds on Linux, see pipe(7),
_MOST = 1_048_576  # and what it can be made to hold


class HeadTail:
    """Bytes of which the first and the last are kept, half of the bound each. Memory: at most twice the bound."""

    def __init__(self, bound: int) -> None:
        self._for_head = bound // 2
        self._for_tail = bound - self._for_head
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes | bytearray) -> None:
        """Take more bytes."""
        room = self._for_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._for_tail:
            self._trim()

    def _trim(self) -> None:
        surplus = len(self._tail) - self._for_tail
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus

    @property
    def omitted(self) -> int:
        """How many bytes between head and tail were dropped."""
        self._trim()
        return self._dropped

    def text(self) -> str:
        """All that is kept, as UTF-8; what is none becomes U+FFFD. A gap is marked on a line of its own."""
        omitted = self.omitted
        if not omitted:
            return (self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # no half character
        start = next((at for at in range(min(4, len(self._tail))) if self._tail[at] & 0xC0 != 0x80), 0)
        return f"{head}\n[... {omitted} bytes omitted ...]\n{self._tail[start:].decode(errors='replace')}"


class Recorder:
    """Reads both streams of a command at once.

    Attributes:
        both: What came on either stream, in the order in which it came.
        error: What ``on_output`` raised.
        cut: Whether somebody still held a pipe when reading was given up.
    """

    def __init__(self, bound: int, on_output: OnOutput | None, failed: Callable[[], None]) -> None:
        self.both = HeadTail(bound)
        self.stdout = HeadTail(bound)
        self.stderr = HeadTail(bound)
        self.error: BaseException | None = None
        self.cut = False
        self._on_output = on_output
        self._failed = failed
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    async def read(self, pipe: trio.abc.ReceiveStream, stream: Stream, within: trio.CancelScope) -> None:
        """Read to the end, or until ``within`` is cancelled and the pipe is empty; then close it. A checkpoint."""
        try:
            with within:
                while chunk := await pipe.receive_some(_CHUNK):
                    self._take(chunk, stream)
            if within.cancelled_caught:
                self.cut = not self._drain(cast(trio.lowlevel.FdStream, pipe), stream) or self.cut
            if self._on_output is not None:
                self._tell(self._decoders[stream].decode(b"", final=True), stream)
        finally:
            await trio.aclose_forcefully(pipe)

    def _drain(self, pipe: trio.lowlevel.FdStream, stream: Stream) -> bool:
        """Read what is there already; whether that was the end."""
        if sys.platform == "win32":  # pragma: no cover - not tested
            return False
        for _ in range(_MOST // _CHUNK):
            try:
                chunk = os.read(pipe.fileno(), _CHUNK)
            except BlockingIOError:
                return False
            if not chunk:
                return True
            self._take(chunk, stream)
        return False

    def _take(self, chunk: bytes | bytearray, stream: Stream) -> None:
        (self.stdout if stream == "stdout" else self.stderr).add(chunk)
        self.both.add(chunk)
        if self._on_output is not None:
            self._tell(self._decoders[stream].decode(chunk), stream)

    def _tell(self, text: str, stream: Stream) -> None:
        if not text or self._on_output is None or self.error is not None:
            return
        try:
            answer = self._on_output(text, stream)
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError(f"on_output takes a function that is not async, not {self._on_output!r}")
        except BaseException as error:  # raised when the command has been ended
            self.error = error
            self._failed()

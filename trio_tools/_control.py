"""A handle on a batch that runs, for those who did not start it."""

from __future__ import annotations

from typing import Protocol

import trio

__all__ = ["BatchControl", "Led"]


class Led(Protocol):
    """What a control needs of a batch."""

    def stop(self, reason: str | None) -> None:
        """Start nothing more."""
        ...

    def cancel(self, call_id: str, reason: str | None) -> bool:
        """Cancel one call."""
        ...


class BatchControl:
    """Give one to :func:`run_batch` or :func:`stream_batch` and keep it, to end that batch gently, or a part of it.

    All of it is synchronous and may be used in any task, also in callbacks and observers of the batch itself.
    """

    def __init__(self) -> None:
        self._batch: Led | None = None
        self._stop: tuple[str | None] | None = None  # asked for before there was a batch

    def lead(self, batch: Led) -> None:
        """Take charge of a batch; done by whoever runs it.

        Raises:
            RuntimeError: If there was one already.
        """
        if self._batch is not None:
            raise RuntimeError("a BatchControl is for one batch: make a new one for each")
        self._batch = batch
        if self._stop is not None:
            batch.stop(*self._stop)

    def stop(self, reason: str | None = None) -> None:
        """Start no further call. Those that have started go on, also those that wait for approval, key or limit.

        The rest gets ``ABORTED_BEFORE_DISPATCH`` with the cause ``"operator"``. The caller is not cancelled; if it is
        later, that cancels what still runs. A stop before the batch begins holds too, one after its end does nothing.

        Args:
            reason: For the operator and the journal; not shown to the model.

        Raises:
            RuntimeError: If called in another thread than Trio's; nothing is stopped then.
        """
        _check_thread()
        self._stop = self._stop or (reason,)
        if self._batch is not None:
            self._batch.stop(reason)

    def cancel(self, call_id: str, reason: str | None = None) -> bool:
        """Cancel the one call with this id, whether it has started or not; its result has the cause ``"operator"``.

        Args:
            call_id: The id; of several calls with that id, it is the first.
            reason: As for :meth:`stop`.

        Returns:
            Whether the batch runs and has such a call without a result.

        Raises:
            RuntimeError: If called in another thread than Trio's; nothing is cancelled then.
        """
        _check_thread()
        return self._batch is not None and self._batch.cancel(call_id, reason)


def _check_thread() -> None:
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("a batch is led in Trio's thread; from another, go by trio.from_thread.run_sync")

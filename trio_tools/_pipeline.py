"""The onion: what is registered, in which order it stands, and how one layer reaches the next."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

import attrs
import trio

from ._approval import Approver
from ._errors import leaves
from ._recording import Recorder
from ._views import AfterPolicy, AroundWrapper, BeforePolicy, Guard, ProgressObserver, ResultObserver

__all__ = ["Continuation", "Registration", "Stages", "discard", "interruptible", "interruptible_sync"]

T = TypeVar("T")


class Registration:
    """Something that was registered, and the way to take it back.

    Close it with :meth:`close`, or use it as a ``with`` block. Closing twice is harmless. A call that has started is
    not affected: its stages are those of the moment it started.
    """

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    def close(self) -> None:
        """Take back exactly this registration."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Registration, {'closed' if self._undo is None else 'in force'}>"


@attrs.frozen
class Stages:
    """The stages of one call, outermost first: those of the ancestors of a registry stand outside its own."""

    before: tuple[BeforePolicy, ...] = ()
    guards: tuple[Guard, ...] = ()
    around: tuple[AroundWrapper, ...] = ()
    after: tuple[AfterPolicy, ...] = ()
    observers: tuple[ResultObserver, ...] = ()
    progress: tuple[ProgressObserver, ...] = ()
    approver: Approver | None = None
    thread_limiter: trio.CapacityLimiter | None = None
    journal: Recorder | None = None
    gated: bool = attrs.field(
        init=False, default=attrs.Factory(lambda self: bool(self.before or self.guards), takes_self=True)
    )  # whether anybody stands before the wrappers


class Continuation(ABC, Generic[T]):
    """``call_next`` as one stage gets it: runs what lies further in. Awaited again it runs again.

    Whoever calls the stage sets :attr:`over` when it has returned, and awaits :meth:`drained` if a run was left behind.
    A run in another task than ``home`` gets a scope, as nothing else can end it there.
    """

    home: trio.lowlevel.Task | None = None  # that made the call; None: this is not to be ended, wherever it runs
    _scope: trio.CancelScope | None = None  # of a run in another task
    _done: trio.Event | None = None
    over = False  # its stage has returned, so it can no longer be used
    running = False
    cut = False  # whether the last run was ended by a cancellation

    @abstractmethod
    def inwards(self) -> Awaitable[T]:
        """What lies further in."""

    def cut_short(self) -> T:
        """The answer of a run in another task whose scope was cancelled; for a continuation with a home."""
        raise NotImplementedError  # pragma: no cover - without a home there is no such scope

    def opened(self, scope: trio.CancelScope) -> None:
        """A run in another task has entered ``scope``."""

    def closed(self, scope: trio.CancelScope) -> None:
        """It has left ``scope``."""

    @trio.lowlevel.enable_ki_protection
    async def __call__(self) -> T:
        if self.over:
            raise RuntimeError("call_next was used after its stage had returned: await it inside the stage")
        if self.running:
            raise RuntimeError("call_next is still running: await it again only after it has returned")
        self.running, self.cut = True, False
        try:
            if self.home is None or trio.lowlevel.current_task() is self.home:
                return await self.inwards()
            return await self._elsewhere()
        except BaseException as error:
            self.cut = any(type(leaf) is trio.Cancelled for leaf in leaves(error))
            raise
        finally:
            self.running = False
            if self._done is not None:
                self._done.set()

    async def _elsewhere(self) -> T:
        with trio.CancelScope() as self._scope:
            self.opened(self._scope)
            try:
                return await self.inwards()
            finally:
                self.closed(self._scope)
        return self.cut_short()

    async def drained(self) -> None:
        """Cancel a run that was left behind, and wait for it, uninterrupted: started work is never abandoned."""
        if self._scope is not None:
            self._scope.cancel("its stage returned before call_next had")
        self._done = trio.Event()
        with trio.CancelScope(shield=True):
            await self._done.wait()


@trio.lowlevel.disable_ki_protection
async def interruptible(stage: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Await a stage or a body; Ctrl-C may strike in it as in any code of the user's."""
    return await stage(*arguments)


@trio.lowlevel.disable_ki_protection
async def lifted(awaitable: Awaitable[T]) -> T:
    """Await what was called already, with the protection lifted; :func:`never_started` tells whether it began."""
    return await awaitable


def never_started(awaitable: Awaitable[object]) -> bool:
    """Whether a coroutine that was to be awaited has not made its first step; it is closed then."""
    if not inspect.iscoroutine(awaitable) or inspect.getcoroutinestate(awaitable) != inspect.CORO_CREATED:
        return False
    awaitable.close()
    return True


@trio.lowlevel.disable_ki_protection
def interruptible_sync(stage: Callable[..., T], *arguments: object) -> T:
    """Call a synchronous stage; Ctrl-C may strike in it as in any code of the user's."""
    return stage(*arguments)


def discard(answer: object) -> None:
    """Close a coroutine that was answered where a plain answer is due: it must not warn of never being awaited."""
    if inspect.iscoroutine(answer):
        answer.close()

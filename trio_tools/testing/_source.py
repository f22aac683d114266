"""What is said of exceptions in an author's source, and which code is an author's."""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import linecache
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import cast

import attrs
import trio

from trio_tools._pipeline import interruptible, lifted

__all__ = [
    "Source",
    "calls_the_author",
    "innermost",
    "is_in_a_call",
    "is_library",
    "is_of_package",
    "line_of",
    "location",
    "operation",
    "source_of",
    "waits",
]

_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = (_PACKAGE, *{sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}, "<")
_CALLS_BODIES, _CALLS_STAGES = lifted.__code__, interruptible.__code__
_TAKES_CANCELLED: tuple[object, ...] = (BaseException, BaseExceptionGroup, trio.Cancelled)
_CALLING = (
    *(ast.Call, ast.Await, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.Yield, ast.YieldFrom),
    *(ast.Attribute, ast.Subscript, ast.Import, ast.ImportFrom),
)
_CATCHES_ALL = frozenset(
    {"BaseException", "BaseExceptionGroup", "Cancelled", "get_cancelled_exc_class()"}  # the last one as anyio calls it
)


def location(frame: FrameType, line: int | None = None) -> str:
    """``"file:line in function"``."""
    return f"{frame.f_code.co_filename}:{line or frame.f_lineno} in {frame.f_code.co_qualname}"


def line_of(filename: str, line: int) -> str:
    """The same, of a line whose frame is gone."""
    around = next((name for lines, name in _functions(filename) if line in lines), "<module>")
    return f"{filename}:{line} in {around}"


def calls_the_author(frame: FrameType) -> bool:
    """Whether that is where this package calls a body, or a stage."""
    return frame.f_code is _CALLS_BODIES or frame.f_code is _CALLS_STAGES


def is_in_a_call(frame: FrameType | None) -> bool:
    """Whether it was called, at however many removes, by a body or a stage."""
    while frame is not None and not calls_the_author(frame):
        frame = frame.f_back
    return frame is not None


def operation(frame: FrameType) -> str:
    """The instruction that the frame is at; it tells a return from a wait, and from an exception that passes."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def waits(frame: FrameType) -> bool:
    """Whether a frame of which a trace function is told that it returns will go on."""
    return operation(frame) in ("YIELD_VALUE", "RESUME")  # the first one up to Python 3.12


def innermost(frames: Sequence[str]) -> str | None:
    """The last one, of lines as :func:`location` names them, that belongs to no library."""
    return next((one for one in reversed(frames) if not is_library(one)), None)


@functools.cache
def is_of_package(filename: str) -> bool:
    """Whether a file belongs to this package."""
    return filename.startswith(_PACKAGE)


@functools.cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to Python, to an installed package, or to this one; or is no file at all."""
    return filename.startswith(_LIBRARIES)


@attrs.frozen
class Source:
    """One file. All numbers are those of lines.

    Attributes:
        cleaning_up: In handlers and ``finally`` blocks.
        ending: In ``finally`` blocks only.
        blocks: The first of each ``with`` statement.
        raising: Of ``raise`` statements that name what they raise, and of ``assert``.
        calling: Of all that may call something, with or without a name.
        shielded: In blocks of a scope that is a shield from the beginning.
    """

    cleaning_up: frozenset[int]
    ending: frozenset[int]
    blocks: frozenset[int]
    raising: frozenset[int]
    calling: frozenset[int]
    shielded: frozenset[int]
    _handlers: dict[int, ast.ExceptHandler] = attrs.field(alias="handlers")  # by the first line
    _contexts: dict[int, list[ast.expr]] = attrs.field(alias="contexts")  # of ``with`` statements, likewise

    def suppressor_at(self, frame: FrameType) -> range | None:
        """The line where ``frame`` is, if a block ends there that suppresses ``Cancelled``."""
        line = frame.f_lineno
        suppresses = any(_suppresses_cancelled(one, frame) for one in self._contexts.get(line, ()))
        return range(line, line + 1) if suppresses else None

    def handler_at(self, frame: FrameType, came: int) -> range | None:
        """The lines of the handler that has taken ``Cancelled``, which came at ``came``, when ``frame`` is here."""
        line = frame.f_lineno
        handler = self._handlers.get(line)
        if handler is not None and _takes_cancelled(handler.type, frame):
            return _lines(handler)
        taken = [one for one in self._handlers.values() if line in _body(one) and came not in _lines(one)]
        return max(map(_lines, taken), key=lambda lines: lines.start, default=None)

    def handles_at(self, frame: FrameType, line: int) -> bool:
        """Whether that line of ``frame`` stands in a handler that takes ``Cancelled``."""
        around = [one for one in self._handlers.values() if line in _lines(one)]
        return any(_takes_cancelled(one.type, frame) for one in around)


@functools.cache
def source_of(filename: str) -> Source:
    """What the source of a file says; nothing, if it cannot be read."""
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(filename)))))
    except SyntaxError:
        nodes = []
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler)]
    final = [one for node in nodes if isinstance(node, ast.Try | ast.TryStar) for one in node.finalbody]
    raising = [
        node for node in nodes if isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and node.exc is not None)
    ]
    blocks = [node for node in nodes if isinstance(node, ast.With | ast.AsyncWith)]
    ending = frozenset(line for one in final for line in _lines(one))
    return Source(
        cleaning_up=ending | {line for one in handlers for line in _lines(one)},
        ending=ending,
        blocks=frozenset(node.lineno for node in blocks),
        raising=frozenset(line for node in raising for line in _lines(node)),
        calling=frozenset(line for node in nodes if isinstance(node, _CALLING) for line in _lines(node)),
        shielded=frozenset(line for node in blocks if _is_shield(node) for one in node.body for line in _lines(one)),
        handlers={one.lineno: one for one in handlers},
        contexts={node.lineno: [item.context_expr for item in node.items] for node in blocks},
    )


@functools.cache
def _functions(filename: str) -> list[tuple[frozenset[int], str]]:
    """The lines of each function of a file, and its qualified name; those further in come first."""
    try:
        todo = [compile("".join(linecache.getlines(filename)), filename, "exec", dont_inherit=True)]
    except SyntaxError:
        return []
    found: list[tuple[frozenset[int], str]] = []
    while todo:
        code = todo.pop()
        found.append((frozenset(line for *_, line in code.co_lines() if line is not None), code.co_qualname))
        todo.extend(one for one in code.co_consts if isinstance(one, CodeType))
    return found[::-1]


def _is_shield(block: ast.With | ast.AsyncWith) -> bool:
    keywords = [
        one for item in block.items if isinstance(item.context_expr, ast.Call) for one in item.context_expr.keywords
    ]
    return any(
        one.arg == "shield" and isinstance(one.value, ast.Constant) and one.value.value is True for one in keywords
    )


def _lines(node: ast.stmt | ast.ExceptHandler | ast.expr | ast.alias) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _body(handler: ast.ExceptHandler) -> range:
    """The lines that only one that has taken an exception comes to."""
    return range(max(handler.lineno + 1, handler.body[0].lineno), _lines(handler).stop)


def _takes_cancelled(kind: ast.expr | None, frame: FrameType) -> bool:
    """By what the expression means there, if it is made of names; if they mean nothing, by how it reads."""
    if isinstance(kind, ast.Tuple):
        return any(_takes_cancelled(one, frame) for one in kind.elts)
    if kind is None:
        return True
    try:
        found = _meaning(kind, frame)
    except (LookupError, AttributeError):
        return _last_name(kind) in _CATCHES_ALL
    many = cast("tuple[object, ...]", found if isinstance(found, tuple) else (found,))
    return any(one is takes for one in many for takes in _TAKES_CANCELLED)


def _meaning(expression: ast.expr, frame: FrameType) -> object:
    if isinstance(expression, ast.Attribute):
        return getattr(_meaning(expression.value, frame), expression.attr)
    if not isinstance(expression, ast.Name):
        raise LookupError(expression)
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if expression.id in names:
            return names[expression.id]
    raise LookupError(expression.id)


def _suppresses_cancelled(context: ast.expr, frame: FrameType) -> bool:
    if not isinstance(context, ast.Call):
        return False
    try:
        called = _meaning(context.func, frame)
    except (LookupError, AttributeError):
        return False
    return called is contextlib.suppress and any(_takes_cancelled(one, frame) for one in context.args)


def _last_name(expression: ast.expr) -> str:
    return ast.unparse(expression).rpartition(".")[2]

"""The request: what a model asked for."""

from __future__ import annotations

import uuid

import attrs

from ._json import FrozenJson, JsonTextError, parse
from ._text import check_text

__all__ = ["ExecutionToken", "Malformed", "ToolCall"]


class ExecutionToken:
    """The identity of one execution. Opaque; a nested call has its parent's token, and no access to its parent."""

    __slots__ = ("__weakref__", "_call_id", "_key")

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._key: str | None = None

    @property
    def key(self) -> str:
        """A random text, the same one each time; what a body gets as its ``idempotency_key`` without a journal."""
        if self._key is None:
            self._key = str(uuid.uuid4())
        return self._key

    def __repr__(self) -> str:
        return f"<ExecutionToken of {self._call_id!r} at {id(self):#x}>"


@attrs.frozen
class Malformed:
    """Stands in for arguments that could not be read; carries the reason until the call is answered with it."""

    reason: str


@attrs.frozen(kw_only=True)
class ToolCall:
    """One tool call as a model made it.

    Attributes:
        id: The model's id of the call; the result is paired with it.
        name: The tool asked for.
        arguments: Parsed JSON. The registry takes its own snapshot when the call starts.
        root_id: Of a nested call, the id of the outermost call; ``None``: this call is the outermost.
        parent: Of a nested call, the token of the execution that makes it.
        agent: A label for observers, journals and telemetry.
    """

    id: str = attrs.field(validator=check_text)
    name: str = attrs.field(validator=check_text)
    arguments: object = attrs.field(factory=dict[str, object])
    root_id: str | None = None
    parent: ExecutionToken | None = None
    agent: str | None = None

    @classmethod
    def from_json(
        cls,
        *,
        id: str,
        name: str,
        arguments: str | bytes,
        root_id: str | None = None,
        parent: ExecutionToken | None = None,
        agent: str | None = None,
    ) -> ToolCall:
        """A call whose arguments are JSON text, as models send it. Empty text means ``{}``.

        Never raises for the text: what is not strict JSON is carried along, and the call is then answered with
        ``INVALID_ARGS`` and the position of the fault, without anybody being asked.

        Raises:
            TypeError: If ``arguments`` is no text.
        """
        if not isinstance(arguments, (str, bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"from_json takes arguments as JSON text, not as {type(arguments).__name__}: "
                "what is parsed already goes to ToolCall(id=..., name=..., arguments=...)"
            )
        return cls(id=id, name=name, arguments=_read(arguments), root_id=root_id, parent=parent, agent=agent)


def _read(text: str | bytes) -> FrozenJson | Malformed:
    if not text:
        return {}
    try:
        return parse(text)
    except JsonTextError as error:
        return Malformed(str(error))

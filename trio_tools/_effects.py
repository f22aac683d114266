"""What a tool does to the world, as far as making a call again is concerned."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from ._json import FrozenJson
from ._results import ToolResult

__all__ = ["Effects", "RecordedCall", "Reconciled"]

Effects: TypeAlias = Literal["mutating", "read-only", "idempotent"]
"""``"mutating"``: making a call twice is not the same as making it once; ``"read-only"``: it changes nothing;
``"idempotent"``: with the same ``run.idempotency_key`` it changes nothing further."""


@attrs.frozen(kw_only=True)
class RecordedCall:
    """A call whose body was entered, and of whose end nothing is recorded.

    Attributes:
        conversation: Whose call it is.
        call_id: Its id.
        name: The tool.
        arguments: Frozen; as the body got them.
        idempotency_key: As the body got it.
    """

    conversation: str
    call_id: str
    name: str
    arguments: FrozenJson
    idempotency_key: str


Reconciled: TypeAlias = ToolResult | Literal["did-not-happen", "unknown"]
"""What a tool finds out about such a call: its outcome, which the after policies judge as any other; that it may be
made again; or nothing."""

"""The shape of the package: imports only downwards, small files and functions, nothing of Trio's private parts."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import trio_tools

PACKAGE = Path(trio_tools.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path.read_text()
    for path in sorted(PACKAGE.rglob("*.py"))
}

_ORDER = """
_text _columns _errors _json_words _json_text _json _content _unwinding _watcher _tasks _scope _results _refusals
_request _views _violations _explanation _forms _schema _docstring _shapes _atoms _containers _records _namespaces
_metadata _classes _pydantic _annotations _binding _signature
_output _truncation _effects _tool _approval _recording _pipeline _execution _presentation _brief _lifecycle
_materialize _gates _dispatch _around _after _finish _call _outstanding _reach _registry
_stalled _openings _planner _concurrency _callbacks _control _order _scheduler _batch _stream _transcript __init__
process._arguments process._output process._census process._tree process._command process._shell_tool process._worker
process.__init__
journal._failures journal._codec journal._format journal._lock journal._in_use journal._writer
journal._database journal._recovery
journal._export journal._listing journal._timeline journal._timeline_template journal._timeline_page
journal._entry journal._conversation journal._journal journal.__init__ journal.__main__
testing._doubles testing._report testing._resources testing._source testing._tracing testing._swallowing
testing._scenario testing._steps testing._run testing._locating
testing._seeded testing._sweep testing.__init__
"""  # lowest first
LAYERS: list[str] = list(_ORDER.split())


def imported(source: str) -> set[str]:
    """The modules of the package that a module imports, for type checkers only or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trio_tools"):
            found.add((node.module or "").removeprefix("trio_tools").lstrip(".") or "__init__")
    return found


def test_every_module_has_its_place_in_the_layers() -> None:
    """A module that is added is put into the order."""
    assert sorted(LAYERS) == sorted(MODULES)


@pytest.mark.parametrize("module", LAYERS)
def test_imports_point_downwards_only(module: str) -> None:
    """Section 9, type-checking imports included."""
    below = set(LAYERS[: LAYERS.index(module)])
    assert imported(MODULES[module]) - below == set()


@pytest.mark.parametrize("module", LAYERS)
def test_files_and_functions_stay_small(module: str) -> None:
    """Section 9: no file over about 300 lines; no function over 60."""
    assert len(MODULES[module].splitlines()) <= 340
    for node in ast.walk(ast.parse(MODULES[module])):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


@pytest.mark.parametrize("module", LAYERS)
def test_nothing_of_trios_private_parts_is_used_and_cancelled_is_never_caught_by_name(module: str) -> None:
    """What we need of Trio has a public form; Cancelled is never swallowed with except."""
    for node in ast.walk(ast.parse(MODULES[module])):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "trio":
            assert not node.attr.startswith("_"), ast.unparse(node)
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            assert "Cancelled" not in ast.unparse(node.type)
    assert not re.search(r"\b(_cancel_status|_cancel_called|_has_been_entered|_runner)\b", MODULES[module])


def test_every_public_name_can_be_imported_and_is_documented() -> None:
    """Section 3: everything public is importable from the package."""
    for name in trio_tools.__all__:
        value = getattr(trio_tools, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), name


def test_public_async_functions_say_whether_they_are_a_checkpoint() -> None:
    """Docstrings tell the behaviour under cancellation."""
    for owner in (trio_tools, trio_tools.ToolRegistry, trio_tools.ToolRun):
        for name, value in vars(owner).items():
            if inspect.iscoroutinefunction(value) and not name.startswith("_"):
                text = (value.__doc__ or "").lower()
                assert "checkpoint" in text or "make a call" in text, f"{owner.__name__}.{name}"


_NAMES_OF_THE_DESIGN = """
ToolCall ExecutionToken TextContent ImageContent AudioContent ResourceLink Content Context ScopeView ToolExecution
ToolDispatch ToolRun BodyState ErrorInfo CancelCause ToolSuccess ToolFailure ToolResult TOOL_ABORTED
TOOL_ABORTED_BEFORE_DISPATCH TOOL_TIMEOUT UNKNOWN_TOOL INVALID_ARGUMENTS INVALID_OUTPUT DENIED DUPLICATE_CALL ToolError
ToolDefinition Output tool Keyed ToolRegistry Registration OutstandingCall run_batch BatchOutcome BeforePolicy Guard
AroundWrapper AfterPolicy ResultObserver BeforeDecision Allow Deny Ask AfterDecision Accept Block Approver
ApprovalRequest ApprovalOutcome Progress freeze thaw FrozenJson
"""


def test_the_public_names_are_those_of_the_design() -> None:
    """Section 3: names are fixed; programs are written against them."""
    assert set(_NAMES_OF_THE_DESIGN.split()) <= set(trio_tools.__all__)

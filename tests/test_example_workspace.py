"""The tools of the example of an agent loop, and its check of the history, by themselves."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from example_program import EXAMPLES, PATIENCE

from trio_tools import TOOL_ABORTED, Context, TextContent, ToolCall, ToolRegistry, ToolResult, ToolSuccess


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))  # pyright: ignore[reportUnknownMemberType] - annotated without a type
    return importlib.import_module


@pytest.fixture
def ask(example: Callable[[str], Any], tmp_path: Path) -> Callable[..., ToolResult]:
    """Makes one call of a tool that works on ``tmp_path``."""
    workspace = example("_workspace").Workspace(tmp_path)

    def asker(name: str, **arguments: object) -> ToolResult:
        async def call() -> ToolResult:
            registry = ToolRegistry(workspace.tools(command_timeout=PATIENCE))
            with trio.CancelScope() as scope:
                return await registry.execute(ToolCall(id="c", name=name, arguments=arguments), scope=scope)
            raise AssertionError("the call was cancelled")

        return trio.run(call)

    return asker


def failed(result: ToolResult) -> str | None:
    """The code of a failure."""
    assert not isinstance(result, ToolSuccess)
    return result.error.code


def value(result: ToolResult) -> Any:
    """The value of a success."""
    assert isinstance(result, ToolSuccess), result
    return result.value


@pytest.mark.parametrize("path", ["..", "/etc/passwd", "../../etc/passwd", "link/passwd", "sub/../../x"])
@pytest.mark.parametrize("name", ["list_files", "read_file", "search_text"])
def test_no_path_leads_out_of_the_directory(ask: Callable[..., ToolResult], tmp_path: Path, name: str, path: str):
    """Neither by its words nor by a link."""
    (tmp_path / "link").symlink_to("/etc")
    arguments = {"path": path, "text": "x"} if name == "search_text" else {"path": path}
    assert failed(ask(name, **arguments)) == "OUTSIDE"


def test_a_search_does_not_follow_a_link_that_leads_out(ask: Callable[..., ToolResult], tmp_path: Path):
    outside, inside = tmp_path.parent / f"{tmp_path.name}-outside", tmp_path / "inside.txt"
    outside.write_text("secret")
    (tmp_path / "link.txt").symlink_to(outside)
    inside.write_text("no secret")
    found = value(ask("search_text", text="secret"))
    assert [match["file"] for match in found["matches"]] == ["inside.txt"]


def test_what_is_no_readable_text_file_fails_with_its_reason(ask: Callable[..., ToolResult], tmp_path: Path):
    """A pipe above all: to open it would wait for a writer. Here is one, so that a tool that opens it is found out."""
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):  # as it should be: nobody has read
            (tmp_path / "pipe").write_text("read after all")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    names = ["binary", "circle", "pipe", "folder", "missing", "nul\0"]
    codes = [failed(ask("read_file", path=name)) for name in names]
    assert codes == ["BINARY_FILE", "UNREADABLE", "NOT_A_FILE", "NOT_A_FILE", "UNREADABLE", "UNREADABLE"]
    assert failed(ask("search_text", text="x", path="missing")) == "UNREADABLE"
    assert value(ask("search_text", text="ELF")) == {"matches": (), "files": 1, "complete": True}
    assert value(ask("list_files"))["entries"] == ("binary", "circle", "folder/", "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # lets the writer go
    writer.join(PATIENCE)
    os.close(reader)


def test_a_huge_file_is_cut_between_two_characters_and_the_cut_is_told(ask: Callable[..., ToolResult], tmp_path: Path):
    """S34: bounded, cut at a character, says how much."""
    (tmp_path / "huge").write_text("x" + "ä" * 50_000)
    read = value(ask("read_file", path="huge"))
    assert read == "x" + "ä" * 7999 + "\n[cut: the first 16000 of 100001 bytes]"


def test_a_huge_directory_and_a_huge_search_are_bounded_and_say_so(ask: Callable[..., ToolResult], tmp_path: Path):
    for number in range(250):
        (tmp_path / f"{number:03}").write_text("needle\nneedle\n")
    listing, found = value(ask("list_files")), value(ask("search_text", text="needle"))
    assert (len(listing["entries"]), listing["more"]) == (200, 50)
    assert (len(found["matches"]), found["complete"]) == (20, False)


@pytest.mark.parametrize(("lines", "shown", "complete"), [(2, 2, True), (20, 20, True), (21, 20, False)])
def test_a_search_says_whether_it_has_shown_every_line(
    ask: Callable[..., ToolResult], tmp_path: Path, lines: int, shown: int, complete: bool
):
    """Also where the line too many is in the last file."""
    (tmp_path / "hay").write_text("needle\n" * lines)
    found = value(ask("search_text", text="needle"))
    assert (len(found["matches"]), found["complete"]) == (shown, complete)


def test_a_search_that_is_cancelled_looks_into_no_further_file(example: Callable[[str], Any], tmp_path: Path):
    """A thread is waited for, so it has to ask whether it should stop."""
    (tmp_path / "hay").write_text("needle\n")
    scope, went_on = trio.CancelScope(), list[str]()

    class Watched(example("_workspace").Workspace):
        def _files(self, start: Path) -> Iterator[Path]:
            yield start / "hay"
            trio.from_thread.run_sync(scope.cancel)
            yield start / "hay"
            went_on.append("a file after the one at which it was cancelled")

    async def call() -> ToolResult:
        registry = ToolRegistry(Watched(tmp_path).tools(command_timeout=PATIENCE))
        return await registry.execute(ToolCall(id="c", name="search_text", arguments={"text": "needle"}), scope=scope)

    assert failed(trio.run(call)) == TOOL_ABORTED
    assert went_on == []


def test_a_name_that_is_not_utf_8_can_be_listed(ask: Callable[..., ToolResult], tmp_path: Path):
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.txt", os.O_CREAT))
    assert value(ask("list_files"))["entries"] == ("\ufffd.txt",)


def test_a_command_that_writes_without_end_is_bounded(ask: Callable[..., ToolResult]):
    """Read while it runs: it would stop for ever at a full pipe otherwise."""
    (shown,) = ask("run_command", command="yes | head -c 3000000").content
    assert isinstance(shown, TextContent)
    assert len(shown.text) < 16_200
    assert "[2984000 bytes of output are left out; narrow it down" in shown.text


def test_how_a_command_ended_is_told(ask: Callable[..., ToolResult]):
    assert ask("run_command", command="echo bad >&2; exit 3").content == (TextContent("bad\n[exit status 3]"),)


def test_the_check_of_the_history_finds_every_way_to_break_the_rule(example: Callable[[str], Any]):
    history = example("_history")
    asks = history.Assistant("", (history.Request("a", "t", ""), history.Request("b", "t", "")))
    a, b = (history.Answer(name, ToolSuccess(value=None, content="")) for name in "ab")
    user, note = history.User("go"), Context("note", source="test")
    assert history.unpaired([user, asks, a, b, note, user]) == []
    assert history.unpaired([asks, a]) == ["b has no result"]
    assert history.unpaired([asks, a, user, b]) == ["b has no result", "the result of b answers no call at this place"]
    assert history.unpaired([asks, a, a, b]) == ["the result of a answers no call at this place"]
    assert history.unpaired([a]) == ["the result of a answers no call at this place"]
    assert len(history.unpaired([asks, b, a])) == 2

"""The timeline of a conversation: what its lanes say, the trace, and the page, which shows what is hostile as text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_tools import (
    Accept,
    Ask,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolSuccess,
    tool,
)
from trio_tools.journal import SqliteJournal, open_journal
from trio_tools.journal._codec import encoded
from trio_tools.journal._database import all_events, reading
from trio_tools.journal._format import Event
from trio_tools.journal._timeline import Lane, Restart, lanes, shown, timeline, trace_events
from trio_tools.journal._timeline_page import page, pieces
from trio_tools.testing import ScriptedApprover

DONE = ToolSuccess(value="x", content="x", body="finished")
START = 1_800_000_000.0


def failed(code: str, message: str = "no", **more: Any) -> ToolFailure:
    return ToolFailure.from_message(message, code=code, **more)


class Records:
    """Records as a journal has them, at seconds from ``START``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.epoch = 1

    def add(self, at: float, call: str, kind: str, number: int = 0, **data: Any) -> None:
        self.events.append(Event(len(self.events) + 1, "a", call, kind, number, self.epoch, START + at, data))

    def call(self, at: float, call: str = "c1", name: str = "pay", **arguments: Any) -> None:
        self.add(at, call, "call", name=name, arguments=arguments, root=call, agent=None, effects="mutating")

    def result(self, at: float, result: Any, call: str = "c1", run: int = 0, **more: Any) -> None:
        self.add(at, call, "result", run, result=encoded(result), **{"by": "live", "judged": True, **more})

    def plain(self, at: float, call: str = "c1", lasting: float = 1.0) -> None:
        """A call that is dispatched at once, and succeeds."""
        self.call(at, call)
        self.add(at, call, "dispatched", 1)
        self.result(at + lasting, DONE, call)


def spans(lane: Lane) -> list[tuple[str, float, float]]:
    return [(span.stage, span.start - START, span.end - START) for span in lane.spans]


def marks(lane: Lane) -> list[tuple[str, float]]:
    return [(mark.kind, mark.at - START) for mark in lane.marks]


def crashed() -> Records:
    """Three calls that a crash left, and what became of them two days later."""
    records, later = Records(), 200_000.0
    for number in range(3):
        records.call(number, f"c{number}", n=number)
    records.add(3, "c1", "dispatched", 1)
    records.add(4, "c2", "dispatched", 1)
    records.add(5, "c2", "ended", 0, by="live", result=encoded(DONE))
    records.plain(5, "c3")
    records.epoch = 2
    records.result(later, failed("ABORTED_BEFORE_DISPATCH"), "c0", by="recovery")
    records.result(later, failed("ABORTED", body="interrupted"), "c1", by="recovery")
    records.result(later, DONE, "c2", by="recovery", judged=False)
    records.add(later + 1, "c0", "resumed", 1, effects="mutating")
    records.add(later + 2, "c0", "dispatched", 1)
    records.result(later + 4, DONE, "c0", 1)
    records.add(later + 4, "c2", "resumed", 1, effects="mutating")
    records.result(later + 5, DONE, "c2", 1)
    return records


# ---- lanes -----------------------------------------------------------------------------------------------------------


def test_a_call_waits_works_and_is_committed() -> None:
    records = Records()
    records.call(0, amount=3)
    records.add(1, "c1", "approval")
    records.add(3, "c1", "dispatched", 1)
    records.add(6, "c1", "ended", by="live", result={})
    records.result(7, DONE)
    (lane,) = lanes(records.events)
    assert (lane.call, lane.tool, lane.arguments, lane.root, lane.agent) == ("c1", "pay", {"amount": 3}, "c1", None)
    assert spans(lane) == [("waiting", 0, 1), ("waiting", 1, 3), ("work", 3, 6), ("committing", 6, 7)]
    assert marks(lane) == [("approval", 1), ("success", 7)]
    assert lane.outcome == "success"
    assert {(span.cut, span.open) for span in lane.spans} == {(False, False)}


def test_each_attempt_is_a_span_of_its_own() -> None:
    records = Records()
    records.call(0)
    for number in (1, 2, 3):
        records.add(number, "c1", "dispatched", number)
    records.result(9, failed("E", "the end"))
    (lane,) = lanes(records.events)
    assert spans(lane) == [("waiting", 0, 1), ("work", 1, 2), ("work", 2, 3), ("work", 3, 9)]
    assert [span.attempt for span in lane.spans] == [0, 1, 2, 3]
    (mark,) = lane.marks
    assert (mark.kind, mark.code, mark.message, mark.attempt) == ("failure", "E", "the end", 3)


@pytest.mark.parametrize("code", ["ABORTED", "ABORTED_BEFORE_DISPATCH"])
def test_a_cancellation_is_no_failure(code: str) -> None:
    records = Records()
    records.call(0)
    result = encoded(failed(code))
    records.add(1, "c1", "result", by="live", result={**result, "cause": {"source": "operator", "reason": "enough"}})
    (lane,) = lanes(records.events)
    assert marks(lane) == [("cancel", 1)]
    assert (lane.marks[0].cause, lane.marks[0].body) == ("operator, enough", "not-started")


def test_a_crash_cuts_what_was_open_where_its_epoch_has_its_last_record() -> None:
    read = timeline(crashed().events)
    never, entered, ended, other = read.lanes
    assert spans(never)[:1] == [("waiting", 0, 6)]
    assert marks(never) == [("crash", 6), ("resumed", 200_001), ("success", 200_004)]
    assert spans(entered) == [("waiting", 1, 3), ("work", 3, 6)]
    assert [span.cut for span in entered.spans] == [False, True]
    assert marks(entered) == [("crash", 6)]
    assert (entered.outcome, entered.marks[0].code) == ("crash", "ABORTED")
    assert spans(ended) == [("waiting", 2, 4), ("work", 4, 5), ("committing", 5, 6), ("committing", 200_004, 200_005)]
    assert [span.run for span in ended.spans] == [0, 0, 0, 1]
    assert other.outcome == "success"
    assert read.restarts == [Restart(START + 6, START + 200_000, 2, crashed=True)]


def test_one_crash_after_the_other_is_one_run_after_the_other() -> None:
    records = Records()
    records.call(0)
    for run in range(3):
        records.add(run * 100 + 1, "c1", "dispatched", run + 1)
        records.add(run * 100 + 2, "else", "call", name="x")
        records.epoch += 1
        records.result(run * 100 + 50, failed("ABORTED"), run=run, by="recovery")
        records.add(run * 100 + 60, "c1", "resumed", run + 1, effects="idempotent")
    lane = lanes(records.events)[0]
    assert [mark for mark in marks(lane) if mark[0] == "crash"] == [("crash", 2), ("crash", 102), ("crash", 202)]
    assert [(span.run, span.attempt) for span in lane.spans if span.stage == "work"] == [(0, 1), (1, 2), (2, 3)]
    assert lane.outcome == "open"
    assert [restart.epoch for restart in timeline(records.events).restarts] == [2, 3, 4]


def test_a_restart_need_be_no_crash_and_what_is_not_ended_is_open() -> None:
    records = Records()
    records.plain(0)
    records.epoch = 3
    records.call(10, "c2")
    records.add(12, "c2", "dispatched", 1)
    records.plain(13, "c3")
    read = timeline(records.events)
    assert read.restarts == [Restart(START + 1, START + 10, 3, crashed=False)]
    assert spans(read.lanes[1])[-1] == ("work", 12, 14)
    assert read.lanes[1].spans[-1].open
    assert read.lanes[1].outcome == "open"


def test_a_clock_that_is_set_back_makes_no_negative_span() -> None:
    records = Records()
    records.call(100)
    records.add(50, "c1", "dispatched", 1)
    records.result(-9, DONE)
    records.plain(101, "c2")
    read = timeline(records.events)
    assert spans(read.lanes[0]) == [("waiting", 100, 100), ("work", 100, 100)]
    assert spans(read.lanes[1]) == [("waiting", 101, 101), ("work", 101, 102)]
    assert read.set_back == 2


def test_what_is_lost_or_redacted_leaves_the_rest() -> None:
    records = Records()
    records.add(0, "c1", "result", by="recovery", judged=True, result="redacted")
    records.add(1, "c2", "dispatched", 2)
    records.add(2, "c2", "unheard of", 5)
    records.call(3, "c3", name="x")
    records.epoch = 2
    records.add(9, "c3", "dispatched", 1)
    records.epoch = 3
    records.result(10, DONE, "c3", by="recovery")
    first, second, third = lanes(records.events)
    assert (first.tool, first.spans, marks(first)) == ("", (), [("crash", 0)])
    assert spans(second) == [("work", 1, 2), ("waiting", 2, 3)]
    assert spans(third) == [("waiting", 3, 9), ("work", 9, 9)]
    assert "left by a crash" in page("a", records.events)


def test_there_may_be_nothing() -> None:
    assert lanes([]) == []
    assert json.loads(trace_events("a", []))["traceEvents"][0]["args"] == {"name": "a"}
    assert "Nothing is recorded of this conversation." in page("a", [])


# ---- real journals ---------------------------------------------------------------------------------------------------


@tool
async def pay(amount: int) -> str:
    return f"paid {amount}"


def journal_with_a_crash(path: Path) -> list[Event]:
    """An approved, retried and judged call, two that are left open, and the next owner, who makes one of them."""

    async def ask(execution: ToolExecution, call_next: Any) -> Ask:
        return Ask("money")

    async def twice(dispatch: ToolDispatch, call_next: Any) -> Any:
        await call_next()
        return await call_next()

    async def accept(execution: ToolExecution, result: Any, call_next: Any) -> Accept:
        return Accept()

    async def first(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay], journal=journal.conversation("a"), approver=ScriptedApprover(["allowed-once"]))
        registry.before(ask)
        registry.around(twice)
        registry.after(accept)
        with trio.CancelScope() as scope:
            await registry.execute(ToolCall(id="whole", name="pay", arguments={"amount": 1}), scope=scope)
        calls = [ToolCall(id=name, name="pay", arguments={"amount": 2}) for name in ("never", "entered")]
        _, entered = await registry.begun(calls, course=True)
        assert entered.entry is not None
        await entered.entry.dispatched(pay)

    async def second(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        with trio.CancelScope() as scope:
            await registry.execute(ToolCall(id="never", name="pay", arguments={"amount": 2}), scope=scope)

    async def run(main: Any) -> None:
        async with open_journal(path) as journal:
            await main(journal)

    trio.run(run, first)
    trio.run(run, second)
    with reading(path) as connection:
        return all_events(connection)


def test_a_real_journal_is_read(tmp_path: Path) -> None:
    read = timeline(journal_with_a_crash(tmp_path / "j.db"))
    whole, never, entered = read.lanes
    assert [span.stage for span in whole.spans] == ["waiting", "waiting", "work", "work", "committing"]
    assert [mark.kind for mark in whole.marks] == ["approval", "success"]
    assert [mark.kind for mark in never.marks] == ["crash", "resumed", "success"]
    assert [(span.stage, span.cut) for span in entered.spans] == [("waiting", False), ("work", True)]
    assert entered.marks[0].cause == "crash"
    assert [restart.crashed for restart in read.restarts] == [True]


# ---- the trace -------------------------------------------------------------------------------------------------------


def test_a_trace_has_a_thread_for_each_call() -> None:
    found = json.loads(trace_events("user 17", crashed().events))["traceEvents"]
    assert found[0] == {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "user 17"}}
    names = {one["tid"]: one["args"]["name"] for one in found if one["name"] == "thread_name"}
    assert names == {1: "c0 pay", 2: "c1 pay", 3: "c2 pay", 4: "c3 pay"}
    complete = [one for one in found if one["ph"] == "X"]
    assert {one["name"] for one in complete} == {"waiting", "work", "committing"}
    for one in complete:
        assert (one["pid"], one["ts"] >= 0, one["dur"] >= 0) == (1, True, True)
        assert one["tid"] in names
    (work,) = [one for one in complete if one["tid"] == 2 and one["name"] == "work"]
    assert (work["ts"], work["dur"]) == (3_000_000, 3_000_000)
    assert work["args"] == {
        "call": "c1", "tool": "pay", "arguments": '{"n": 1}', "run": 0, "attempt": 1, "cut": True, "open": False
    }  # fmt: skip
    instants = {(one["name"], one["tid"], one["s"]): one for one in found if one["ph"] == "i"}
    assert instants["crash", 2, "t"]["args"]["code"] == "ABORTED"
    assert instants["restart", 0, "p"]["ts"] == 200_000_000_000


# ---- the page --------------------------------------------------------------------------------------------------------

HOSTILE = "</script><script>document.body.dataset.taken = 1</script><img src=x onerror=alert(1)>\"'&amp;\u2028\u202e"


def hostile() -> list[Event]:
    records = Records()
    records.call(0, HOSTILE, HOSTILE, **{HOSTILE: [HOSTILE, "\ud800", "<!--<script>"]})
    records.add(1, HOSTILE, "dispatched", 1)
    records.result(2, failed(HOSTILE, HOSTILE), HOSTILE)
    records.add(2, "inner", "call", name="x", arguments=None, root=HOSTILE, agent=HOSTILE)
    return records.events


def embedded(text: str) -> str:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return found


def test_what_is_hostile_is_text() -> None:
    text = page(HOSTILE, hostile())
    data = embedded(text)
    assert not set(data) & set("<>&\u2028")
    assert data.isascii()
    lane, inner = json.loads(data)["lanes"]
    assert lane["id"] == lane["tool"] == lane["items"][-1]["message"] == shown(HOSTILE)
    assert shown(HOSTILE).endswith("\\u2028\\u202e")
    assert json.loads(lane["arguments"]) == {HOSTILE: [HOSTILE, "\ud800", "<!--<script>"]}
    assert (inner["root"], inner["agent"]) == (shown(HOSTILE), shown(HOSTILE))
    assert text.replace(data, "") == page("a", crashed().events).replace(embedded(page("a", crashed().events)), "")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert json.loads(trace_events(HOSTILE, hostile()))


def widths(records: Records) -> list[tuple[float, float, bool]]:
    return [(one.start - START, one.end - START, one.gap) for one in pieces(timeline(records.events))]


def test_where_nothing_happens_for_long_there_is_a_gap() -> None:
    assert widths(crashed()) == [(0, 6, False), (6, 200_000, True), (200_000, 200_005, False)]
    drawn = pieces(timeline(crashed().events))
    assert [(one.left, one.right) for one in drawn] == [
        pytest.approx(each)
        for each in [(0, 0.94 * 6 / 11), (0.94 * 6 / 11, 0.94 * 6 / 11 + 0.06), (1 - 0.94 * 5 / 11, 1)]
    ]
    close = Records()
    for number, at in enumerate((0, 1.5, 3)):
        close.plain(at, f"c{number}")
    assert widths(close) == [(0, 4, False)]


def test_waiting_is_a_gap_only_if_work_would_vanish_beside_it() -> None:
    records = Records()
    records.call(0)
    records.add(500, "c1", "approval")
    records.add(500, "c1", "dispatched", 1)
    records.result(501, DONE)
    assert widths(records) == [(0, 500, True), (500, 501, False)]
    records.events[-2:] = []
    assert widths(records) == [(0, 500, False)]


def test_moments_alone_have_places_too() -> None:
    records = Records()
    records.add(0, "c1", "result", by="live", result=encoded(DONE))
    assert widths(records) == [(0, 0, False)]
    records.add(9, "c2", "result", by="live", result=encoded(DONE))
    assert widths(records) == [(0, 9, True)]
    assert [lane["items"][0]["x"] for lane in json.loads(embedded(page("a", records.events)))["lanes"]] == [0, 1]


# ---- in a browser ----------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
WORDS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=2000"),
    *("--window-size=1280,800", "--dump-dom"),
]


class Dom(HTMLParser):
    """The elements of a dumped page, each with its attributes and the text in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._within: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag != "meta":
            self._within.append(self.elements[-1][2])

    def handle_endtag(self, tag: str) -> None:
        self._within.pop()

    def handle_data(self, data: str) -> None:
        for texts in self._within:
            texts.append(data)

    def texts(self, kind: str, tag: str | None = None) -> list[str]:
        """Of all elements with this class or id."""
        return [
            "".join(text)
            for name, attrs, text in self.elements
            if kind in [attrs.get("id"), *(attrs.get("class") or "").split()] and tag in (None, name)
        ]


def opened(tmp_path: Path, text: str) -> Dom:
    """The page when its script has run."""
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    words = [str(BROWSER), *WORDS, f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(words, capture_output=True, check=True, timeout=120)
    dom = Dom(done.stdout.decode())
    (body,) = [attrs for tag, attrs, _ in dom.elements if tag == "body"]
    assert body == {"data-state": "done"}
    return dom


@in_a_browser
def test_a_browser_draws_a_lane_for_each_call(tmp_path: Path) -> None:
    events = journal_with_a_crash(tmp_path / "j.db")
    dom = opened(tmp_path, page("user 17", events))
    assert dom.texts("lane") == ["wholepay2", "neverpay", "enteredpay"]
    assert dom.texts("name") == ["user 17"]
    assert dom.texts("sum") == ["3 calls: 2 succeeded, 1 left by a crash"]
    assert len(dom.texts("crash", "button")) == 2
    assert len(dom.texts("cut")) == 2
    assert dom.texts("restart", "span") == ["crash, restarted"]
    assert dom.texts("tick", "span")


@in_a_browser
def test_a_browser_takes_nothing_hostile_for_markup(tmp_path: Path) -> None:
    dom = opened(tmp_path, page(HOSTILE, hostile()))
    tags = {tag for tag, _, _ in dom.elements}
    assert not tags & {"img", "iframe", "a"}
    assert [tag for tag, _, _ in dom.elements].count("script") == 2
    assert dom.texts("name") == [shown(HOSTILE)]
    assert dom.texts("label", "button")[0] == shown(HOSTILE) * 2


@in_a_browser
def test_a_browser_draws_gaps_and_says_when_there_is_nothing(tmp_path: Path) -> None:
    dom = opened(tmp_path, page("a", crashed().events))
    assert dom.texts("skip", "span") == ["2 d 8 h"]
    assert opened(tmp_path, page("a", [])).texts("none") == ["Nothing is recorded of this conversation."]


@in_a_browser
def test_two_thousand_calls_are_drawn(tmp_path: Path) -> None:
    records = Records()
    for number in range(2000):
        records.plain(number * (1 if number % 10 else 100), f"c{number}")
    assert len(opened(tmp_path, page("a", records.events)).texts("lane")) == 2000


@in_a_browser
def test_keys_and_the_pointer_show_details_and_zoom(tmp_path: Path) -> None:
    """Another script does what a person would; the page's own policy, which refuses it, is taken out."""
    text = re.sub(r"script-src 'sha256-[^']*'", "script-src 'unsafe-inline'", page("a", crashed().events))
    acts = """<script>
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const say = (name, text) => { document.getElementById(name).dataset.said = text; };
const wide = document.getElementById("canvas").offsetWidth;
document.querySelector("#lanes button").focus();
say("lanes", document.getElementById("details").textContent);
["ArrowDown", "ArrowRight", "ArrowRight"].forEach(press);
say("axis", document.getElementById("details").textContent);
document.querySelector("#lanes .crash").click();
document.querySelector("#lanes .success").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
press("+");
say("ticks", document.getElementById("canvas").offsetWidth / wide);
</script></body>"""
    dom = opened(tmp_path, text.replace("</body>", acts))
    said = {attrs.get("id"): attrs["data-said"] or "" for _, attrs, _ in dom.elements if "data-said" in attrs}
    assert re.search(r'callc0toolpaystageswaiting 6 s, waiting 1 s, work 2 s{"n": 0}', said["lanes"])
    assert "callc1toolpaywork3 s, cut by a crashat2027-01-15 08:00:03.000 UTC (+3 s)inrun 0, attempt 1" in said["axis"]
    assert 1.5 < float(said["ticks"]) < 2
    (details,) = dom.texts("details")
    assert "crash: the program ended here" in details
    assert "codeABORTED_BEFORE_DISPATCHmessageno" in details

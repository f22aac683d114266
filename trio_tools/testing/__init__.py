"""For the authors of tools and stages: is my tool cancel-safe? And stand-ins for what surrounds a call."""

from trio_tools._stalled import report_stalled_calls
from trio_tools.testing._doubles import GatedTool, Observed, RecordingObserver, ScriptedApprover, run_tool
from trio_tools.testing._report import Breach, CancelPoint, CancelReport, Mode, Rule
from trio_tools.testing._seeded import run_seeded
from trio_tools.testing._steps import InjectedError
from trio_tools.testing._sweep import assert_cancel_safe, cancel_everywhere

__all__ = [
    "Breach",
    "CancelPoint",
    "CancelReport",
    "GatedTool",
    "InjectedError",
    "Mode",
    "Observed",
    "RecordingObserver",
    "Rule",
    "ScriptedApprover",
    "assert_cancel_safe",
    "cancel_everywhere",
    "report_stalled_calls",
    "run_seeded",
    "run_tool",
]

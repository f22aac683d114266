"""Running the tools that a language model asks for, inside a Trio program: one truthful result for each call."""

from ._approval import ApprovalOutcome, ApprovalRequest, Approver
from ._batch import BatchOutcome, run_batch
from ._content import AudioContent, Content, Context, ImageContent, ResourceLink, TextContent
from ._control import BatchControl
from ._effects import Effects, Reconciled, RecordedCall
from ._errors import ToolError
from ._json import FrozenJson, NotJsonError, freeze, thaw
from ._output import Output
from ._outstanding import OutstandingCall
from ._pipeline import Registration
from ._registry import ToolRegistry
from ._request import ExecutionToken, ToolCall
from ._results import (
    DENIED,
    DUPLICATE_CALL,
    INVALID_ARGUMENTS,
    INVALID_OUTPUT,
    JOURNAL_FAILED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    TOOL_TIMEOUT,
    UNKNOWN_TOOL,
    BodyState,
    CancelCause,
    ErrorInfo,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)
from ._scope import CancelSource, ScopeView
from ._stalled import report_stalled_calls
from ._stream import BatchEvent, BatchStream, CallCommitted, CallFinished, CallStarted, stream_batch
from ._tool import Concurrency, FunctionTool, Keyed, ToolDefinition, tool
from ._transcript import PairingFault, check_pairing, close_open_calls
from ._truncation import limit_content
from ._views import (
    Accept,
    AfterDecision,
    AfterPolicy,
    Allow,
    AroundWrapper,
    Ask,
    BeforeDecision,
    BeforePolicy,
    Block,
    Deny,
    Guard,
    Progress,
    ProgressObserver,
    ResultObserver,
    ToolDispatch,
    ToolExecution,
    ToolRun,
)

__all__ = [
    # one call
    "ToolCall",
    "ToolRegistry",
    "Registration",
    "OutstandingCall",
    "report_stalled_calls",
    # tools
    "tool",
    "ToolDefinition",
    "FunctionTool",
    "limit_content",
    "Output",
    "Concurrency",
    "Keyed",
    "ToolRun",
    "ToolError",
    "Effects",
    "RecordedCall",
    "Reconciled",
    # results
    "ToolResult",
    "ToolSuccess",
    "ToolFailure",
    "ErrorInfo",
    "BodyState",
    "CancelCause",
    "CancelSource",
    "Content",
    "TextContent",
    "ImageContent",
    "AudioContent",
    "ResourceLink",
    "Context",
    "Progress",
    # codes
    "TOOL_ABORTED",
    "TOOL_ABORTED_BEFORE_DISPATCH",
    "TOOL_TIMEOUT",
    "UNKNOWN_TOOL",
    "INVALID_ARGUMENTS",
    "INVALID_OUTPUT",
    "JOURNAL_FAILED",
    "DENIED",
    "DUPLICATE_CALL",
    # stages
    "ToolExecution",
    "ToolDispatch",
    "ExecutionToken",
    "ScopeView",
    "BeforePolicy",
    "BeforeDecision",
    "Allow",
    "Deny",
    "Ask",
    "Approver",
    "ApprovalRequest",
    "ApprovalOutcome",
    "Guard",
    "AroundWrapper",
    "AfterPolicy",
    "AfterDecision",
    "Accept",
    "Block",
    "ResultObserver",
    "ProgressObserver",
    # batches
    "run_batch",
    "BatchOutcome",
    "BatchControl",
    "stream_batch",
    "BatchStream",
    "BatchEvent",
    "CallStarted",
    "CallFinished",
    "CallCommitted",
    # histories
    "check_pairing",
    "close_open_calls",
    "PairingFault",
    # JSON
    "FrozenJson",
    "NotJsonError",
    "freeze",
    "thaw",
]

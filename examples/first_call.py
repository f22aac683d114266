"""One tool, one call, and a deadline that cuts it short."""

import trio

from trio_tools import ToolCall, ToolRegistry, ToolRun, tool


@tool(timeout=5)
async def count_slowly(upto: int, run: ToolRun) -> int:
    """Count, a step each tenth of a second."""
    for number in range(1, upto + 1):
        run.emit(f"{number} ")
        await trio.sleep(0.1)
    return upto


async def main() -> None:
    registry = ToolRegistry([count_slowly])
    with trio.move_on_after(0.35) as turn:  # whatever cancels the turn cancels the call, and execute still returns
        for call_id, arguments in [("call_1", '{"upto": 2}'), ("call_2", '{"upto": "2"}'), ("call_3", '{"upto": 50}')]:
            call = ToolCall.from_json(id=call_id, name="count_slowly", arguments=arguments)
            result = await registry.execute(call, scope=turn)
            print(call_id, result.body, result.error.code if result.is_error is True else result.value, result.content)


trio.run(main)

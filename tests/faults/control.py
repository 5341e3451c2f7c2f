"""The control door, ``/_faults``: a test in another process sets the script and reads the counts.

``POST`` takes a JSON object, all of whose fields may be absent; ``GET`` tells the counts.
"""

import json
from collections.abc import Mapping

import msgspec

from tests.faults.http import Request, Response
from tests.faults.script import Rule, Script

PATH = "/_faults"


class Orders(msgspec.Struct, forbid_unknown_fields=True):
    """What to change: `clear` takes effect first, then the modes, then the new rules."""

    clear: bool = False
    seed: int | None = None
    ignore_conditions: bool | msgspec.UnsetType = msgspec.UNSET
    writes_per_second_per_name: float | msgspec.UnsetType | None = msgspec.UNSET
    page_limit: int | msgspec.UnsetType = msgspec.UNSET
    rules: list[Rule] = []


def obey(orders: Orders, script: Script) -> None:
    if orders.clear:
        script.clear()
    if orders.seed is not None:
        script.reseed(orders.seed)
    modes = script.modes
    if orders.ignore_conditions is not msgspec.UNSET:
        modes.ignore_conditions = orders.ignore_conditions
    if orders.writes_per_second_per_name is not msgspec.UNSET:
        modes.writes_per_second_per_name = orders.writes_per_second_per_name
    if orders.page_limit is not msgspec.UNSET:
        modes.page_limit = orders.page_limit
    script.add(*orders.rules)


def answer_control(
    request: Request, script: Script, counts: Mapping[tuple[str, str], int]
) -> Response:
    match request.method:
        case "GET":
            by_verb: dict[str, dict[str, int]] = {}
            for (verb, outcome), count in sorted(counts.items()):
                by_verb.setdefault(verb, {})[outcome] = count
            struck = [msgspec.to_builtins(rule) | {"struck": n} for rule, n in script.struck()]
            modes = msgspec.to_builtins(script.modes)
            return _json(200, {"counts": by_verb, "rules": struck, "modes": modes})
        case "POST":
            try:
                orders = msgspec.json.decode(request.body, type=Orders)
            except msgspec.MsgspecError as error:
                return _json(400, {"error": str(error)})
            obey(orders, script)
            return _json(200, {"rules": len(script.struck())})
    return _json(405, {"error": f"{request.method} is not understood here"})


def _json(status: int, document: dict[str, object]) -> Response:
    return Response(status, {"Content-Type": "application/json"}, json.dumps(document).encode())

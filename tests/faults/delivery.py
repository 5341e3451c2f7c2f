"""How one request is delivered to the store and answered, with the fault that befalls it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.faults.objects import Condition
from tests.faults.operation import Operation, Put
from tests.faults.result import Refusal, Result
from tests.faults.script import Fault, Rule


@dataclass(frozen=True, slots=True)
class Delivery:
    """What to answer, or None for no answer at all, and what to call it in the counts."""

    result: Result | None
    fault: Rule | None = None


# The faults that refuse a request before anything is applied, and what they say.
_REFUSED_BEFORE: Mapping[Fault, Refusal] = {
    Fault.UNAVAILABLE_BEFORE: Refusal.UNAVAILABLE,
    Fault.CONFLICT_NOTHING_STORED: Refusal.CONFLICT,
    Fault.THROTTLED: Refusal.THROTTLED,
    Fault.SLOW_DOWN: Refusal.SLOW_DOWN,
    Fault.NOT_IMPLEMENTED: Refusal.NOT_IMPLEMENTED,
}


def deliver(
    operation: Operation, rule: Rule | None, apply: Callable[[Operation], Result]
) -> Delivery:
    """Apply the operation as often as the fault lets it be, and tell what to answer."""
    if rule is None:
        return Delivery(apply(operation))
    delivery = _deliver_badly(operation, rule, apply)
    if rule.rival is not None and isinstance(operation, Put):
        absent = Condition(if_absent=True)
        apply(Put(bucket=operation.bucket, key=operation.key, body=rule.rival, condition=absent))
    return delivery


def _deliver_badly(
    operation: Operation, rule: Rule, apply: Callable[[Operation], Result]
) -> Delivery:
    if rule.fault in _REFUSED_BEFORE:
        return Delivery(_REFUSED_BEFORE[rule.fault], rule)
    if rule.fault is Fault.DROP_BEFORE or (rule.fault is Fault.HANG and not rule.applied):
        return Delivery(None, rule)
    result = apply(operation)
    match rule.fault:
        case Fault.DUPLICATE_DELIVERY:
            return Delivery(apply(operation), rule)
        case Fault.ERROR_AFTER:
            return Delivery(Refusal.INTERNAL, rule)
        case Fault.DROP_AFTER | Fault.HANG:
            return Delivery(None, rule)
    return Delivery(result, rule)

"""The client: for other people's programs, to tell Arco what happens in them.

Promises: telling never blocks its caller for longer than was agreed, and nothing is lost in silence: every
event ends as acknowledged, which means durable, as refused with a reason, or it is counted and reported as
not delivered. What is repeated is repeated under the same ids, so that it counts once.
Never reads a store. It runs on a thread of its own in processes that are not ours, so law 12 does not bind
it; time and randomness still come from `core`. May enter `core` alone.
"""

from arco.client.event import Event
from arco.client.event_client import EventClient
from arco.client.report import BufferFull, Refused, Report, Undelivered

__all__ = ["BufferFull", "Event", "EventClient", "Refused", "Report", "Undelivered"]

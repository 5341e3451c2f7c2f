"""The client: how a Python program uses a running Arco over HTTP.

Promises: `Arco` can do all that the REST API can, with types and with the errors of `arco.core.errors`; a
change that was sent twice takes effect once. `EventClient` never blocks its caller longer than agreed, and
loses no event silently: each is acknowledged (durable), refused with a reason, or counted as undelivered.
Never: reads a store, or imports a server.
May import: `core`, and the types of requests and answers of `catalog`, `query` and `flow`.
"""

from arco.client.client import Arco
from arco.client.event import BufferFull, Event, Refused, Report, Undelivered
from arco.client.event_client import EventClient
from arco.client.models import ColumnDefinition
from arco.client.transport import HttpRetryPolicy

__all__ = [
    "Arco",
    "BufferFull",
    "ColumnDefinition",
    "Event",
    "EventClient",
    "HttpRetryPolicy",
    "Refused",
    "Report",
    "Undelivered",
]

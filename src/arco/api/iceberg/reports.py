"""The handler of metrics reports: they are counted, and whatever an engine adds to them is let through."""

import msgspec

from arco.api.iceberg.desk import IcebergDesk
from arco.api.query_params import OpenQuery
from arco.api.route import Call, Reply

KNOWN = frozenset({"scan-report", "commit-report"})
OTHER = "other"  # labels are ours: a stranger must not fill the registry with new ones


class Report(msgspec.Struct, frozen=True, rename="kebab"):
    """All that is looked at."""

    report_type: msgspec.Raw = msgspec.Raw(b"null")


class Reports:
    """Reports of scans and commits."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._metrics = desk.services.metrics

    async def report(self, call: Call[OpenQuery, Report]) -> Reply:
        """Take a report of a scan or a commit."""
        kind = bytes(call.body.report_type).decode(errors="replace").strip('"')
        self._metrics.reported(kind if kind in KNOWN else OTHER)
        return Reply(204)

"""Registering over a table that is there: its chain goes on with the metadata that are named (P30)."""

from arco.core.errors import Invalid
from arco.iceberg.attempt import REGISTER, Attempt, attempt
from arco.iceberg.commit import CommitWork
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.kinds import TABLES
from arco.iceberg.loaded import Loaded
from arco.iceberg.names import Name
from arco.iceberg.standing import Standing
from arco.iceberg.wire import CommitTableRequest
from arco.ledger.claim import Claim


class OverwriteWork(CommitWork):
    """A registration over a table as work that takes effect once."""

    def __init__(self, desk: Desk, name: Name, caller: Caller, stored: Loaded) -> None:
        super().__init__(desk, name, CommitTableRequest(), caller, TABLES)
        self._stored = stored

    def _decide(self, base: Loaded, standing: Standing, claim: Claim) -> Attempt | None:
        if standing.location == self._stored.location:
            return None
        location = str(self._stored.metadata["location"])
        if location.rstrip("/") != str(base.metadata["location"]).rstrip("/"):
            raise Invalid("a table stays where it is: these metadata belong to another place")
        return attempt(
            self._desk,
            self._stored.metadata,
            number=standing.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=REGISTER,
            previous=standing.location,
            stored=self._stored.location,
            base=base.metadata,
        )

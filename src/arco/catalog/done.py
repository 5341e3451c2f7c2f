"""What a caller is told when its request was carried out."""

import msgspec

from arco.catalog.lookup import FoundObject
from arco.catalog.model import ColumnRow


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was carried out, and the object as it was then."""

    number: int
    commit_ulid: str
    operation: str
    object: FoundObject
    columns: tuple[ColumnRow, ...] = ()

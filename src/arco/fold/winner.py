"""Winners: which of the rows with one key decides a rule.

Of two neighbours with one key one goes, all pairs at once; what is left of a key is at most half of it, and
neighbours again. So a value is compared a few times, however many rows a key has, and nothing is sorted but
keys. Only where there are few rows are the values sorted too, as that takes the fewest steps.
"""

import pyarrow as pa
import pyarrow.compute as pc

from arco.fold.code import coded, few, sort, whole
from arco.fold.group import Groups
from arco.fold.table import Keep, Rule, Table

_NO = pa.array([False], pa.bool_())
_HIGHEST = (Keep.LAST, Keep.MAX)


def winners(table: Table, rule: Rule, rows: pa.Table, groups: Groups) -> pa.Array:
    """The row that decides, for each key in the order of the keys.

    A null loses against all but a null. Between equal rows it does not matter which one wins.
    """
    highest = rule.keep in _HIGHEST
    by = rule.order or rule.columns
    if few(rows):
        order = sort(rows, (*table.key, *by), nulls_last=not highest)
        return order.filter(groups.ends if highest else groups.starts)
    values = [whole(rows, name).take(groups.contest.at) for name in by]
    value = values[0] if len(values) == 1 else coded(values, nulls_last=not highest)
    return groups.settled(_by_pairs(groups.contest, value, highest=highest))


def _by_pairs(rows: Groups, value: pa.Array, *, highest: bool) -> pa.Array:
    """The winners among rows that all have rivals."""
    wins = _right_wins(value.slice(0, len(value) - 1), value.slice(1), highest=highest)
    left_goes = pa.concat_arrays([pc.and_(rows.same, wins), _NO])
    right_goes = pa.concat_arrays([_NO, pc.and_not(rows.same, wins)])
    stays = pc.invert(pc.or_(left_goes, right_goes))
    rest = rows.only(stays)
    if rest.distinct:
        return rest.at
    value = value.filter(stays).filter(rest.rivals)
    return rest.settled(_by_pairs(rest.contest, value, highest=highest))


def _right_wins(left: pa.Array, right: pa.Array, *, highest: bool) -> pa.Array:
    """Of each pair, whether the right one wins."""
    if highest:
        return pc.coalesce(pc.greater_equal(right, left), pc.is_null(left))
    return pc.coalesce(pc.less(right, left), pc.is_valid(right))

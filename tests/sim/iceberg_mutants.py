"""The Iceberg package with one rule taken out at a time; every one of these must be caught."""

from .iceberg_crash import SLEEP_MS
from .iceberg_scenario import IcebergScenario
from .mutants import Mutant

COMMIT_MUTANTS = (
    Mutant(
        name="recovery by comparing the head alone",
        rule="P11",
        target="arco.iceberg.pointer:find_request",
        old="since = await chain.history(number + 1, head.number)",
        new="since = [head.entry]",
    ),
    Mutant(
        name="landed commit not looked for",
        rule="P11",
        target="arco.iceberg.pointer:_carries",
        old="pointer.request_id == request_id and pointer.transaction is None",
        new="False",
    ),
    Mutant(
        name="lost race kept as a refusal",
        rule="P12",
        target="arco.iceberg.commit:CommitWork._perform_locked",
        old="losses += 1",
        new='return error_answer(Conflict("somebody was first"))',
    ),
    Mutant(
        name="nothing to do told as landed",
        rule="P12",
        target="arco.iceberg.commit:CommitWork._perform_locked",
        old="return success_answer(result, has_landed=False)",
        new="return success_answer(result)",
    ),
    Mutant(
        name="pointer before its metadata",
        rule="law 3",
        target="arco.iceberg.prepared_commit:write_metadata",
        old="context.files.create(prepared.location, stored),",
        new=(
            "(context.runtime.tasks.spawn(context.files.create(prepared.location, stored)),"
            " hold.check())[1],"
        ),
    ),
    Mutant(
        name="receipt not looked for",
        rule="law 1",
        target="arco.iceberg.after_commit:is_reported",
        old="is not None",
        new="is not None or True",
    ),
)

NAME_MUTANTS = (
    Mutant(
        name="commit on a tombstone",
        rule="P31",
        target="arco.iceberg.pointer_head:PointerHeads.resolve",
        old="if head.entry.record.tombstone:",
        new="if False:",
    ),
    Mutant(
        name="tombstone after release",
        rule="P31",
        target="arco.iceberg.drop:DropWork._perform_locked",
        old="await hold.check()",
        new=(
            "await hold.check()\n"
            "        from arco.catalog.change import change\n"
            "        from arco.catalog.ddl import ReleaseTable\n"
            "        early = ReleaseTable(table_id=table_id, tombstone=table_head.number + 1)\n"
            '        await change(context.committer, early, "client:arco")'
        ),
    ),
    Mutant(
        name="release without born < tombstone",
        rule="P31",
        target="arco.catalog.decide_attached:release_table",
        old="row.born >= request.tombstone",
        new="False",
    ),
    Mutant(
        name="undrop name first",
        rule="P31",
        target="arco.iceberg.drop:UndropWork.perform",
        old="table_head = await self._revived(claim, hold)",
        new=(
            "table_head = await self._context.heads.of(self._table_id)\n"
            "        early = RestoreTable(\n"
            "            table_id=self._table_id, born=table_head.number + 1, name=self._name\n"
            "        )\n"
            "        try:\n"
            "            if table_head.tombstone is not None:\n"
            "                await release_name(self._context, self._table_id, table_head)\n"
            "                await change_catalog(\n"
            "                    self._context, claim, hold, early, self._caller.actor\n"
            "                )\n"
            "        except (CatalogRefusal, NotFound):\n"
            "            pass\n"
            "        table_head = await self._revived(claim, hold)"
        ),
    ),
    Mutant(
        name="doubt not written down before a drop",
        rule="P31",
        target="arco.iceberg.drop:DropWork.perform",
        old="await self._context.unresolved_names.add([table_id], self._is_open)",
        new="pass",
    ),
)

TRANSACTION_MUTANTS = (
    Mutant(
        name="append on an undecided head",
        rule="P33",
        target="arco.iceberg.pointer_head:PointerHeads.settle",
        old="if transaction is None:",
        new="if True:",
    ),
    Mutant(
        name="outcome taken for one's own",
        rule="P33",
        target="arco.iceberg.transaction_record:TransactionRecords.decide",
        old="return self._remember(transaction, _read(raw, transaction))",
        new="return self._remember(transaction, committed)",
    ),
    Mutant(
        name="older version shown when the outcome cannot be read",
        rule="P33",
        target="arco.iceberg.transaction_record:TransactionRecords.outcome",
        old="raw = await self._store.find(self._key(transaction))",
        new=(
            "from arco.core.errors import ArcoError\n"
            "    try:\n"
            "        raw = await self._store.find(self._key(transaction))\n"
            "    except ArcoError:\n"
            "        raw = None"
        ),
    ),
    Mutant(
        name="undecided transaction remembered as aborted",
        rule="P33",
        target="arco.iceberg.transaction_record:TransactionRecords.outcome",
        old="return None if raw is None else",
        new="return self._remember(transaction, False) if raw is None else",
    ),
    Mutant(
        name="takeover leaves the old transaction alone",
        rule="P33",
        target="arco.iceberg.multi_table_commit:MultiTableCommitWork.perform",
        old="for transaction in _earlier(claim):",
        new="for transaction in ():",
    ),
    Mutant(
        name="outcome before the pointers",
        rule="P33",
        target="arco.iceberg.multi_table_commit:MultiTableCommitWork._try_once",
        old="entries = await self._append_pointers(tables)",
        new=(
            "await self._transactions.decide(transaction, committed=True)\n"
            "        entries = await self._append_pointers(tables)"
        ),
    ),
)

# These need somebody who crashes or sleeps at the right moment, so `iceberg_crash` looks at every moment
# of an operation.
POINT_MUTANTS: dict[str, tuple[str, float]] = {
    "recovery by comparing the head alone": ("commit with a key", 0.0),
    "nothing to do told as landed": ("needless commit with a key", 0.0),
    "undrop name first": ("undrop with a key", 0.0),
    "doubt not written down before a drop": ("drop", 0.0),
    "release without born < tombstone": ("drop", SLEEP_MS),
    "append on an undecided head": ("both", 0.0),
    "outcome taken for one's own": ("both", SLEEP_MS),
    "older version shown when the outcome cannot be read": ("load", SLEEP_MS),
    "undecided transaction remembered as aborted": ("both", SLEEP_MS),
}

MUTANTS = {mutant.name: mutant for mutant in (*COMMIT_MUTANTS, *NAME_MUTANTS, *TRANSACTION_MUTANTS)}

ICEBERG_MUTANTS = [
    (mutant, IcebergScenario) for name, mutant in MUTANTS.items() if name not in POINT_MUTANTS
]

"""The catalog and its compactor with one rule taken out at a time; every one of these must be caught."""

from .catalog_scenario import CatalogScenario
from .mutants import Mutant

_COMMIT_PATH = "commits/{self.domain}/{number:020d}-{change.commit_ulid}.json"

PUBLISH_MUTANTS = (
    Mutant(
        name="no base_manifest",
        rule="P23",
        target="arco.compactor.sync_compaction:_refuse_stale",
        old="parent.rows_changed_at > call.base_manifest",
        new="False",
    ),
    Mutant(
        name="commit record under the bare number",
        rule="P21",
        target="arco.compactor.publisher:Publisher.publish",
        old=_COMMIT_PATH,
        new="commits/{self.domain}/{number:020d}.json",
    ),
    Mutant(
        name="Tier-1 order by occurred_at",
        rule="P22",
        target="arco.compactor.sync_compaction:_folded",
        old="COMMIT: number",
        new='COMMIT: int(row.updated_at.timestamp()) if hasattr(row, "updated_at") else number',
    ),
    Mutant(
        name="fencing token not carried on",
        rule="P22",
        target="arco.compactor.publisher:Publisher._manifest",
        old="max(change.fencing_token, parent.fencing_token if parent else -1)",
        new="change.fencing_token",
    ),
    Mutant(
        name="passed token taken",
        rule="P28",
        target="arco.compactor.sync_compaction:_refuse_stale_token",
        old="passed is not None or None in own_epoch or slept",
        new="None in own_epoch or slept",
    ),
    Mutant(
        name="acknowledge before the manifest",
        rule="law 1",
        target="arco.compactor.publisher:Publisher.publish",
        old="return await self.chain.append(head, self._manifest(number, parent, change, record))",
        new=(
            "from arco.storage.entry import make_entry\n"
            "    body = self._manifest(number, parent, change, record)\n"
            "    entry = make_entry(self._runtime, head.entry, body)\n"
            "    async def later():\n"
            "        try:\n"
            "            await self.store.create(self.chain.key(number), entry.raw)\n"
            "        except (Conflict, Unknown):\n"
            "            pass\n"
            "    self._runtime.tasks.spawn(later())\n"
            "    return Head(entry, head.seen_ms)"
        ),
    ),
    Mutant(
        name="manifest before its events are durable",
        rule="law 3",
        target="arco.compactor.sync_compaction:sync_compact",
        old="await publisher.publish(head, change, newest_token, guard)",
        new="await publisher.publish(head, change, newest_token)",
    ),
    Mutant(
        name="files not awaited before the manifest",
        rule="law 3",
        target="arco.compactor.publisher:Publisher.create",
        old="await self._runtime.tasks.gather(\n            *(",
        new="list(\n            self._runtime.tasks.spawn(each) for each in (",
    ),
)

MERGE_MUTANTS = (
    Mutant(
        name="a shortened tail in another order than the commits",
        rule="P22",
        target="arco.compactor.catalog_tail:_change",
        old="sorted([*kept, new[name]], key=lambda ref: ref.newest)",
        new="[*kept, new[name]]",
    ),
    Mutant(
        name="a tail shortened without a look at its inputs",
        rule="P26",
        target="arco.compactor.catalog_tail:_has_all",
        old="return all(",
        new="return True or all(",
    ),
    Mutant(
        name="merge drops what was committed meanwhile",
        rule="P26",
        target="arco.compactor.catalog_merge:_Merge._change",
        old="name: tuple(ref for ref in files if ref.path not in self._merged)",
        new="name: ()",
    ),
    Mutant(
        name="merge without a look at its inputs",
        rule="P26",
        target="arco.compactor.catalog_merge:_Merge._fits",
        old="return head.base == self._input.base and self._merged <= tail",
        new="return True",
    ),
    Mutant(
        name="forgetting changes no rows",
        rule="P26",
        target="arco.compactor.catalog_merge:_Merge._change",
        old="changes_rows=self._expired.rows > 0",
        new="changes_rows=False",
    ),
    Mutant(
        name="forgotten before its time",
        rule="P22",
        target="arco.compactor.catalog_compactor:CatalogCompactor.merge",
        old="- self._keep",
        new="",
    ),
    Mutant(
        name="record that may yet be named collected",
        rule="P27",
        target="arco.compactor.kept_manifests:KeptManifests.may_name",
        old="if number > min(head_number, self.head):\n        return True",
        new="",
    ),
    Mutant(
        name="events of kept commits collected",
        rule="P20",
        target="arco.compactor.garbage_collection:find_spent_segments",
        old=" and meta.key not in kept_keys",
        new="",
    ),
)

# These need somebody who sleeps at the right moment, so `sleep_points` looks at every moment.
SLEEP_MUTANTS = (
    Mutant(
        name="orphans without a mark",
        rule="P27",
        target="arco.compactor.garbage_collection:_Collection.collect_files",
        old="if not dry_run:\n            await compactor.mark_orphans(new_mark, self._domain)",
        new="dry_run = True\n        if False:\n            pass",
    ),
    Mutant(
        name="passed token taken once its successor is collected",
        rule="P28",
        target="arco.compactor.sync_compaction:_refuse_stale_token",
        old="passed is not None or None in own_epoch or slept",
        new="passed is not None",
    ),
)

COMMIT_MUTANTS = (
    Mutant(
        name="landed request not looked for",
        rule="P11",
        target="arco.catalog.committer:Committer._drop_landed",
        old="if pending.request_id in landed[base]:",
        new="if False:",
    ),
    Mutant(
        name="refusal on a neighbour before its manifest",
        rule="P25",
        target="arco.catalog.committer:Committer._decide",
        old="if view.used_unpublished:",
        new="if False:",
    ),
    Mutant(
        name="unknown answered as a failure",
        rule="law 9",
        target="arco.catalog.committer:_unknown",
        old="if isinstance(problem, Unknown):\n        return problem",
        new='return Unavailable("it failed")',
    ),
    Mutant(
        name="hold not checked before the commit",
        rule="P11",
        target="arco.catalog.committer:_check_hold",
        old="await pending.hold.check()",
        new="pass",
    ),
    Mutant(
        name="one row twice in a commit",
        rule="P10",
        target="arco.catalog.committer:Committer._decide",
        old="or view.holds(decision.rows)",
        new="",
    ),
    Mutant(
        name="answer recalled from the head",
        rule="P10",
        target="arco.catalog.pending_request:read_change_result",
        old="await reader.at_number(number)",
        new="await reader.head()",
    ),
)

CATALOG_MUTANTS = [
    (mutant, CatalogScenario) for mutant in (*PUBLISH_MUTANTS, *MERGE_MUTANTS, *COMMIT_MUTANTS)
]

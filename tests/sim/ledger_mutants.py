"""The ledger with one rule taken out at a time; every one of these must be caught."""

from .claim_scenario import ClaimScenario
from .mutants import Mutant
from .stream_scenario import StreamScenario

STREAM_MUTANTS = (
    Mutant(
        name="acknowledge before create",
        rule="law 1",
        target="arco.ledger.writer:LedgerWriter._store_group",
        old="if await self._create(stream, body):",
        new=(
            "async def later(key):\n"
            "            try:\n"
            "                await self._store.create(key, body)\n"
            "            except ArcoError:\n"
            "                pass\n"
            "        key = segment_key(self._domain, stream.id, stream.next_seq)\n"
            "        self._tasks.spawn(later(key))\n"
            "        stream.next_seq += 1\n"
            "        if True:"
        ),
    ),
    Mutant(
        name="next segment before the last is known",
        rule="P15",
        target="arco.ledger.writer:LedgerWriter._create",
        old="stream.unsettled = body",
        new="stream.next_seq += 1",
    ),
    Mutant(
        name="stream ended by clock",
        rule="P16",
        target="arco.ledger.follower:SegmentFollower._read_on",
        old="self._reschedule(stream, news=last_seq >= first_seq)",
        new=(
            "if self._clock.elapsed_ms() - self._targets[stream].active_ms > 1_200_000:\n"
            "        return [SegmentLocation(stream, last_seq + 1, seal=True)]\n"
            "    self._reschedule(stream, news=last_seq >= first_seq)"
        ),
    ),
    Mutant(
        name="seal collected",
        rule="P16",
        target="arco.ledger.gc:collect_segments",
        old="folded = segment.seq < last_seqs[segment.stream]",
        new="folded = True",
    ),
)

CLAIM_MUTANTS = (
    Mutant(
        name="one outcome for all claims",
        rule="P10",
        target="arco.ledger.idempotency:Idempotency._record",
        old="except Conflict:\n        return False",
        new=(
            "except Conflict:\n"
            "        head = await chain.head()\n"
            "        if b'outcome' in head.entry.raw:\n"
            "            return False\n"
            "        return await self._record(chain, head, claim, answer)"
        ),
    ),
    Mutant(
        name="nothing checked above the claim",
        rule="P11",
        target="arco.ledger.idempotency:_Hold.check",
        old="if await self._chain.find(self._mine.number + 1) is not None:",
        new="if False:",
    ),
    Mutant(
        name="refusal answered without its number",
        rule="P12",
        target="arco.ledger.idempotency:Idempotency._work",
        old="return answer if recorded else None",
        new="return answer",
    ),
    Mutant(
        name="a taker mints a new request_id",
        rule="P10",
        target="arco.ledger.idempotency:Idempotency._decided",
        old="return state\n",
        new="return await self._fresh_claim(request)\n",
    ),
    Mutant(
        name="a request that slept begins all the same",
        rule="P14",
        target="arco.ledger.idempotency:_refuse_overtime",
        old="if clock.elapsed_ms() > until_ms:",
        new="if False:",
    ),
    Mutant(
        name="keys go before their own life is over",
        rule="P14",
        target="arco.ledger.gc:_is_over",
        old="return age_ms >= first.body(Claim).life_ms",
        new="return True",
    ),
)

LEDGER_MUTANTS = [(mutant, StreamScenario) for mutant in STREAM_MUTANTS] + [
    (mutant, ClaimScenario) for mutant in CLAIM_MUTANTS
]

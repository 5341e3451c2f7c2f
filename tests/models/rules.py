"""The rules that can be weakened, one at a time: each False is a mutant that must be caught.

What a rule says is in the design's protocol page, under the P that stands beside it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ChainRules:
    own_write_look: bool = True  # law 8
    create_id: bool = True  # P1
    predecessor_read: bool = True  # P5
    floor: bool = True  # P6
    floor_after_miss: bool = True  # P6
    old_head_distrusted: bool = True  # P7
    head_dated_by_its_miss: bool = True  # P7: not by the end of the search
    own_head_dated_by_its_send: bool = True  # P7: not by the answer, or the look
    old_find_distrusted: bool = True  # P7, where a look found "there by me"
    old_loss_distrusted: bool = True  # P7, where a look found "there by another"


@dataclass(frozen=True)
class ClaimRules:
    outcomes_numbered: bool = True  # P10
    own_request_sought: bool = True  # P11
    checked_above_claim: bool = True  # P11
    taker_claims_first: bool = True  # P11
    refusal_above_claim: bool = True  # P12
    refusal_settled: bool = True  # P2: no other pass while a refusal may still arrive
    verdict_from_target: bool = True  # P12: from the very chain that the request would land on


@dataclass(frozen=True)
class StreamRules:
    create_before_ack: bool = True  # law 1
    predecessor_known: bool = True  # P15
    unknown_leaves_stream: bool = True  # P15: a number given up on is not used for other bytes
    ended_by_seal: bool = True  # P16
    seal_kept: bool = True  # P16
    old_seal_distrusted: bool = True  # P7, where a late look found a seal
    watermark_with_rows: bool = True  # law 3


@dataclass(frozen=True)
class TransactionRules:
    undecided_head_respected: bool = True  # P33: no process appends on it
    outcome_put_if_absent: bool = True  # P33: who comes second has lost
    reader_never_falls_back: bool = True  # P33: not even where the outcome cannot be read
    new_id_for_each_takeover: bool = True  # P33
    previous_is_effective: bool = True  # P33: not what the head holds, committed or not
    every_pass_disowned: bool = True  # P33: a taker aborts the pass that may still commit
    claim_checked_each_pass: bool = True  # P11
    all_tables_before_outcome: bool = True  # P33


@dataclass(frozen=True)
class NameRules:
    undrop_pointer_first: bool = True  # P31
    release_only_if_born_before: bool = True  # P31
    born_only_rises: bool = True  # P31: whichever of two restores reaches Tier 1 last
    tombstone_first: bool = True  # P31
    tombstone_ends_chain: bool = True  # P31: a commit that lost to it is not applied on it

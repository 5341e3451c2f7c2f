"""Small models of the protocols, explored over every interleaving.

The rooms build what these models decide. Here a protocol is a few hundred lines of plain Python
with no store, no clock and no import of the product, small enough for every order of events to be
tried: late requests, lost answers, crashes, sleepers. A sound model proves that its rules suffice
within its bounds; a model with one rule weakened proves that the rule is needed, and gives the
shortest trace of why.

`explorer` walks any model. `chain` (P1, P2, P5 to P7), `claims` (P10 to P13), `streams` (P15,
P16), `transactions` (P33) and `names` (P31) are the models, each over its `_store`; `rules` names
what can be weakened, `catalogue` what is explored. `python -m tests.models` prints a table, and
`python -m tests.models chain.floor` the counterexample to a chain without floors.
"""

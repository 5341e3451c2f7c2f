"""The sole writer of published state (law 4): it folds events into files and publishes them.

Promises: files and commit record are durable before the manifest that names them, one create of which is
the commit (law 3); a commit is published only on a base whose rows have not changed, with a token that is
not stale; a call that is repeated is found, not repeated. Never decides what a request comes to. May enter
`core`, `storage`, `ledger`, `fold` and `catalog`.
"""

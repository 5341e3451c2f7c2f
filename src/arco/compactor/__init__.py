"""The only writer of published state (law 4): it folds events into state files and publishes manifests.

Promises: state files and the commit record are durable before the manifest that names them, and creating
that manifest is the commit (law 3). A commit is published only on a base whose rows have not changed, with
a current fencing token. A repeated call is answered with the first commit.
Never decides the outcome of a request. May import `core`, `storage`, `ledger`, `events`, `fold` and
`catalog`.
"""

"""Access: authentication of callers, and authorization of what they ask for.

Promises: an identity is proven before it is used, and a failed proof is `Unauthenticated` with one constant
message; every operation has an entry in one matrix, and one function decides; no caller reaches another
scope (law 10); internal operations are open to Arco's own processes only.
Never repeats a token or a secret in an error, and knows nothing of HTTP but the value of one header.
May import `core`, `storage` and `catalog`.
"""

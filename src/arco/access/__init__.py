"""Access: who is calling, and whether they may do what they ask for.

Promises: an identity is proven before it is used, and what cannot be proven is `Unauthenticated` in
one constant sentence; every operation has an entry in one matrix, and one function decides; nobody
reaches another scope (law 10); what only our own processes may do, nobody else can.
Never: repeats a token or a secret in an error; knows the wire, but for the text of one header.
May enter: core, storage, catalog.
"""

"""`arco lineage`: lineage for people, as a tree, and for programs, as JSON, Mermaid or DOT.

Promises: the same answer gives the same bytes, and no name can break a drawing.
Never: computes lineage; a running Arco answers it.
May import: every package below `cli`.
"""

"""`arco lineage`: lineage for people, as a tree, and for programs, as JSON, Mermaid or DOT.

Promises that the same answer gives the same bytes, and that no name can break a drawing. Asks a running
Arco, and knows nothing of lineage but what that says.
"""

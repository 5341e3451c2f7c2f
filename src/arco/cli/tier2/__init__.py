"""Tier 2 as a process: Spark in a child of its own, which is started, watched and ended from here.

`worker` is the child, `process` the child as its parent sees it, `wire` the lines between them, `keeper`
decides when there is one, and `reports` turns what it tells into log lines and metrics. `here` does the
same work in this very process, for whoever waits for it. A child may be killed at any moment: nothing
exists until a manifest names it, and the next one reads on from the watermark that is published.
"""

"""Random histories of events, and many ways to the same rows (law 7).

Of each seed a history is made. Whatever way its lines go, in any order, some of them twice, cut into any
segments and batches, some long after the others, through tails, bases, rebuilds and fresh reads, in this
process or on Spark: the rows are the same, in all columns. And they are the right ones: an oracle that
knows the rules and nothing of the code says what is to be seen of executions, tasks and partitions.

`python -m tests.differential --seeds 10000 --spark 300` runs it all; `--seed N` one of them again.
"""

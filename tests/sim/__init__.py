"""The simulator: the real code of Arco on a simulated store, clock, scheduler and network.

Promises: one seed decides everything, so that a seed that fails once fails again, on every machine;
processes crash, sleep and stall at any await, clocks jump, and requests are lost, late, doubled or
answered wrongly; after a run an auditor judges the log of what the store applied.
Never: reads the machine's clock or randomness, starts a thread, or uses asyncio.

`python -m tests.sim --seeds 1000` runs every scenario; `--seed N` replays one and prints its trace.
"""

"""Planning: which partitions have to be made, why, and in which order.

Promises that a plan is a function of the definitions, the selection, the state and the time, byte for byte.
Never reads a store, a clock or Spark. May import partition, define, events and core. A *maker* is an asset
or a task of the project, that is, what fills tables.
"""

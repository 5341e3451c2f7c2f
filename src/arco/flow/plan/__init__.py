"""Planning: which partitions have to be made, why, and in which order.

Promises that a plan is a function of the definitions, the selection, the state and the time, byte for byte.
Never reads a store, a clock or Spark. May enter partitions, definitions, events and core.
"""

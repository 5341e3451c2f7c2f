"""What people ask first about events: runs and their tasks, partitions, health and statistics of tables.

Promises: each answer is of one moment, whatever it takes to put it together; pages of a list are all of the
manifest that the first was read from.
Never reads the store itself: it asks the SQL engine, with every value of a caller as a literal.
"""

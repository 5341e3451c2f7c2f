"""The same do-nothing tasks on orchestrators of others: programs for an environment of their own."""

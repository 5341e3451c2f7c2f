"""Cloud policies, rendered from the one table of who may do what where (law 4).

Handles enforce the table inside our own processes; these policies make the cloud enforce it too, so that a
process that was taken over is no more than its role. Each cloud's module says what the cloud can and
cannot express. Where it cannot, the policy is a little looser, never tighter, than the table, and says
so in its notes.
"""

"""`python -m tests.models` prints the table; with names, such as `chain.floor`, the traces."""

import sys

from tests.models.report import counterexample, report

for name in sys.argv[1:]:
    for text in counterexample(name):
        print(text)
if not sys.argv[1:]:
    for text in report():
        print(text, flush=True)

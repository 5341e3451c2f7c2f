"""`python -m tests.models` prints the table; with names, such as `chain.floor`, the traces."""

import sys

from tests.models.catalogue import weakened
from tests.models.report import counterexample, report


def main(names: list[str]) -> int:
    """Print the table, or the traces of the weakened models that are named."""
    models = weakened()
    if any(name in ("-h", "--help") for name in names):
        print(f"{__doc__}\n\nThere are: {', '.join(models)}.")
        return 0
    unknown = [name for name in names if name not in models]
    if unknown:
        names_of_models = ", ".join(models)
        print(
            f"no such model: {', '.join(unknown)} (there are: {names_of_models})", file=sys.stderr
        )
        return 2
    for name in names:
        for text in counterexample(name):
            print(text)
    if not names:
        for text in report():
            print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

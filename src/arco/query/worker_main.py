"""Starts a worker without pandas, which Arrow imports if it is installed and which is slow to import."""

import sys


class _NoPandas:
    """An import finder that hides pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def main() -> None:
    """Serve until the engine ends."""
    sys.meta_path.insert(0, _NoPandas())
    from arco.query.worker import main as serve

    serve()


if __name__ == "__main__":
    main()

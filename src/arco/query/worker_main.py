"""Starts a worker without pandas: Arrow imports it wherever it is installed, which takes very long."""

import sys


class _NoPandas:
    """A finder that finds nothing, for one name."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def main() -> None:
    """Serve until the engine is gone."""
    sys.meta_path.insert(0, _NoPandas())
    from arco.query.worker import main as serve

    serve()


if __name__ == "__main__":
    main()

"""What clients of tables are told of the store."""

import pytest

from arco.server.workspace import client_settings
from arco.server.workspace_address import WorkspaceAddress

ENDPOINT = "http://minio:9000"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", {}),
        ("?region=eu-1", {"client.region": "eu-1", "s3.region": "eu-1"}),
        # A bucket at a server of one's own has no host of its own, so we put it into the path too.
        (f"?endpoint={ENDPOINT}", {"s3.endpoint": ENDPOINT, "s3.path-style-access": "true"}),
        (f"?endpoint={ENDPOINT}&path_style=false", {"s3.endpoint": ENDPOINT}),
        ("?path_style=true", {"s3.path-style-access": "true"}),
    ],
)
def test_clients_are_told_to_reach_a_bucket_as_we_do(options: str, told: dict[str, str]) -> None:
    assert client_settings(WorkspaceAddress(store=f"s3://lake/arco{options}")) == told


def test_of_other_stores_there_is_nothing_to_tell() -> None:
    assert client_settings(WorkspaceAddress(root="/data/arco")) == {}

"""What the programs that Arco starts find in their environment."""

import os
import subprocess

import pytest

from arco.core.environment import compaction_environment, pipeline_environment, started_with

SECRETS = {
    "ARCO_SERVICE_TOKEN": "s",
    "ARCO_SIGNING_KEY_FILE": "/etc/key",
    "ARCO_TOKEN": "t",
    "ARCO_TOKEN_FILE": "/etc/token",
}
CLOUDS = {
    "AWS_SECRET_ACCESS_KEY": "a",
    "GOOGLE_APPLICATION_CREDENTIALS": "g",
    "AZURE_TENANT_ID": "z",
}
NEEDED = {
    "PATH": "/bin",
    "MALLOC_ARENA_MAX": "2",
    "JAVA_HOME": "/java",
    "SPARK_LOCAL_IP": "10.0.0.1",
    "PYTHONPATH": "/src",
}
OTHERS = {"DB_PASSWORD": "p", "GITHUB_TOKEN": "h", "https_proxy": "http://user:pass@proxy"}
ALL = {**SECRETS, **CLOUDS, **NEEDED, **OTHERS}


@pytest.mark.parametrize(
    ("scheme", "opens"),
    [
        ("file", set()),
        ("s3", {"AWS_SECRET_ACCESS_KEY", "https_proxy"}),
        ("gs", {"GOOGLE_APPLICATION_CREDENTIALS", "https_proxy"}),
        ("az", {"AZURE_TENANT_ID", "https_proxy"}),
    ],
)
def test_compaction_gets_what_it_runs_on_and_what_opens_its_store(
    scheme: str, opens: set[str]
) -> None:
    assert set(compaction_environment(ALL, scheme)) == NEEDED.keys() | opens


def test_pipelines_get_what_is_their_users_without_secrets_of_arco() -> None:
    assert pipeline_environment(ALL).keys() == ALL.keys() - SECRETS.keys()


def test_a_program_gets_only_these_variables_and_the_environment_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARCO_TOKEN", "canary")
    before = dict(os.environ)
    with started_with(pipeline_environment(os.environ)):
        output = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert "canary" not in output
    assert "PATH=" in output
    assert dict(os.environ) == before

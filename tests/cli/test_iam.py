import json

import pytest

from arco.storage.iam.policy import Cloud
from arco.storage.roles import Role
from tests.cli.command import arco, is_one_sentence


@pytest.mark.parametrize("cloud", Cloud)
def test_the_policies_of_every_role_are_one_document(cloud: Cloud) -> None:
    run = arco("iam", "render", "--cloud", cloud, "--bucket", "lake", "--prefix", "prod")

    document = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
    assert list(document["roles"]) == list(Role)
    assert document["below"] == "prod/tenant=default/workspace=default/"
    assert "roles.py" in document["generated"]
    assert "jq .roles.api" in document["use"]


def test_one_role_of_one_workspace_can_be_asked_for() -> None:
    run = arco(
        *("iam", "render", "--cloud", "aws", "--bucket", "lake", "--role", "janitor"),
        *("--tenant", "acme", "--workspace", "main"),
    )

    document = json.loads(run.stdout)
    assert list(document["roles"]) == ["janitor"]
    resources = json.dumps(document["roles"]["janitor"])
    assert "arn:aws:s3:::lake/tenant=acme/workspace=main/" in resources


def test_variables_stand_in_for_the_flags_here_too() -> None:
    run = arco("iam", "render", ARCO_CLOUD="gcp", ARCO_BUCKET="lake", ARCO_ROLE="reader")

    assert list(json.loads(run.stdout)["roles"]) == ["reader"]


def test_the_workspace_comes_from_the_same_variables_as_everywhere() -> None:
    flags = ("iam", "render", "--cloud", "aws", "--bucket", "lake")
    run = arco(*flags, ARCO_TENANT_ID="acme", ARCO_WORKSPACE_ID="main")

    assert json.loads(run.stdout)["below"] == "tenant=acme/workspace=main/"


@pytest.mark.parametrize("bucket", ["*", "la*ke", "${aws:username}", "a/b", "Lake"])
def test_a_bucket_that_a_policy_would_expand_is_refused(bucket: str) -> None:
    run = arco("iam", "render", "--cloud", "aws", "--bucket", bucket)

    assert run.returncode == 2
    assert is_one_sentence(run.stderr)
    assert run.stdout == ""

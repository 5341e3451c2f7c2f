"""`arco iam`: the policies of the identities that Arco's processes run under."""

from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import App, Parameter

from arco.cli.settings import Name, scope_of
from arco.storage.iam.policy import Cloud, make_target
from arco.storage.roles import Role

if TYPE_CHECKING:
    from arco.core.json import Json

_EXAMPLES = """\
Examples:
  arco iam render --cloud aws --bucket lake --role api | jq .roles.api
  arco iam render --cloud gcp --bucket lake --prefix arco --tenant acme
  arco iam render --cloud azure --bucket lake | jq .roles.janitor.definition"""

_USE = {
    Cloud.AWS: (
        "Each entry of `roles` is one policy document: `jq .roles.api > policy.json`, then `aws iam "
        "put-role-policy --role-name NAME --policy-name arco --policy-document file://policy.json`."
    ),
    Cloud.GCP: (
        "Each entry of `roles` holds the custom roles to create and the bindings to add for one "
        "identity: take them out with jq, such as `jq .roles.api`."
    ),
    Cloud.AZURE: (
        "Each entry of `roles` holds one definition and its assignments: `jq "
        ".roles.api.definition > role.json` for `az role definition create --role-definition "
        "@role.json`. An assignment names no principal: give `az role assignment create` the identity "
        "of the process as --assignee, with the role, scope, condition and conditionVersion from here."
    ),
}

app = App(
    name="iam",
    help="Print cloud policies for the identities of Arco's processes.",
    help_epilogue=_EXAMPLES,
)


@app.command
def render(
    *,
    cloud: Cloud,
    bucket: Name,
    prefix: Annotated[str, Parameter(metavar="PREFIX")] = "",
    tenant: Annotated[Name, Parameter(env_var="ARCO_TENANT_ID")] = "default",
    workspace: Annotated[Name, Parameter(env_var="ARCO_WORKSPACE_ID")] = "default",
    role: Role | None = None,
) -> None:
    """Print the policies of every role, or of one, as one JSON document.

    They come from the same table that every storage handle enforces at run time.

    Parameters
    ----------
    cloud
        The cloud that the policies are for.
    bucket
        The bucket, or on Azure the container.
    prefix
        The prefix of the store inside the bucket.
    tenant
        The tenant that the identities belong to; ARCO_TENANT_ID works too.
    workspace
        The workspace that the identities belong to; ARCO_WORKSPACE_ID works too.
    role
        Print only this role.
    """
    from arco.cli.output import print_document
    from arco.storage.iam import render as render_policies

    target = make_target(bucket, prefix, scope_of(tenant, workspace))
    roles = tuple(Role) if role is None else (role,)
    document = render_policies(cloud, target, roles)
    print_document({"use": _USE[cloud], **cast("dict[str, Json]", document)})

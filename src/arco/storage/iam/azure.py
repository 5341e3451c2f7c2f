"""Azure: one custom role for each of ours, and an assignment with a condition on the blob's path.

What Azure can express: `blobs/add/action` creates a blob and cannot overwrite one, which takes
`blobs/write`; so creates and hints are different actions, each with its own paths. Reading and listing
are one action, distinguished by the sub-operation. A missing blob is a 404 to an identity that may read it.

What it cannot: `*` crosses slashes (see `glob`). `blobs/write` also creates, so who may hint a key may
create it.
"""

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.storage.iam.policy import (
    PolicyTarget,
    floor_globs,
    loose_patterns,
    to_glob,
    to_listing_glob,
    too_deep,
)
from arco.storage.roles import Role, Verb, patterns

NOTES = (
    (
        "Replace SUBSCRIPTION_ID, RESOURCE_GROUP and ACCOUNT; create the roles with `az role "
        "definition create`, the assignments with `az role assignment create --condition`."
    ),
    "An identity that may overwrite a hint may also create it: one action does both.",
    f"Looser than the table, because '*' crosses slashes: {', '.join(loose_patterns())}.",
    (
        "Signing needs a user delegation key, which is granted at the account; what is signed can do "
        "no more than the identity that signed it."
    ),
)

_MAX_CONDITION = 8_192

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_CONTAINER_NAME = "@Resource[Microsoft.Storage/storageAccounts/blobServices/containers:name]"
_PATH = f"@Resource[{_BLOBS}:path]"
_PREFIX = f"@Request[{_BLOBS}:prefix]"
_LIST = "SubOperationMatches{'Blob.List'}"

_SUBSCRIPTION = "/subscriptions/SUBSCRIPTION_ID"
_ACCOUNT = (
    f"{_SUBSCRIPTION}/resourceGroups/RESOURCE_GROUP/providers/Microsoft.Storage"
    "/storageAccounts/ACCOUNT"
)

_ACTIONS = {
    Verb.GET: f"{_BLOBS}/read",
    Verb.CREATE: f"{_BLOBS}/add/action",
    Verb.HINT: f"{_BLOBS}/write",
    Verb.DELETE: f"{_BLOBS}/delete",
}


def render(target: PolicyTarget, role: Role) -> Json:
    """The role definition and the assignments of one role."""
    name = f"Arco {role} {target.scope.tenant} {target.scope.workspace}"
    verbs = [verb for verb in _ACTIONS if patterns(role, verb)]
    assignments: list[Json] = [
        {
            "role": name,
            "scope": f"{_ACCOUNT}/blobServices/default/containers/{target.bucket}",
            "condition": _condition(target, role, verbs),
            "conditionVersion": "2.0",
        }
    ]
    if patterns(role, Verb.SIGN):
        assignments.append({"role": "Storage Blob Delegator", "scope": _ACCOUNT})
    return {
        "definition": {
            "Name": name,
            "IsCustom": True,
            "Description": f"What Arco's {role} may do, as far as its assignment's condition lets it.",
            "Actions": [],
            "DataActions": [_ACTIONS[verb] for verb in verbs],
            "AssignableScopes": [_SUBSCRIPTION],
        },
        "assignments": assignments,
    }


def _condition(target: PolicyTarget, role: Role, verbs: list[Verb]) -> str:
    """Every action of the role, each bound to its paths; the clauses must all hold."""
    clauses = [_clause(_listing(), _may_list(target, role))]
    for verb in verbs:
        action = f"ActionMatches{{'{_ACTIONS[verb]}'}}"
        if verb is Verb.GET:
            action += f" AND NOT {_LIST}"
        clauses.append(_clause(action, _may(target, role, verb)))
    condition = " AND ".join(clauses)
    if len(condition) > _MAX_CONDITION:
        raise Invalid(f"the condition of {role} would be too long for Azure: use a shorter prefix")
    return condition


def _clause(action: str, allowed: str) -> str:
    return f"((!({action})) OR ({allowed}))"


def _listing() -> str:
    return f"ActionMatches{{'{_ACTIONS[Verb.GET]}'}} AND {_LIST}"


def _may_list(target: PolicyTarget, role: Role) -> str:
    prefixes = [target.base + to_listing_glob(each) for each in patterns(role, Verb.LIST)]
    if not prefixes:
        # Never true, since the assignment is for this container alone.
        return f"{_CONTAINER_NAME} StringNotEquals '{target.bucket}'"
    return _any(_PREFIX, prefixes)


def _may(target: PolicyTarget, role: Role, verb: Verb) -> str:
    allowed = [target.base + to_glob(each) for each in patterns(role, verb)]
    denied = [target.base + each for each in too_deep(role, verb)]
    if verb is not Verb.GET:
        may_floors = verb is Verb.CREATE and role is Role.JANITOR
        (allowed if may_floors else denied).extend(target.base + each for each in floor_globs())
    terms = [f"({_any(_PATH, allowed)})", *(f"{_PATH} StringNotLike '{each}'" for each in denied)]
    return _group(terms)


def _any(attribute: str, globs: list[str]) -> str:
    values = ", ".join(f"'{each}'" for each in globs)
    return f"{attribute} ForAnyOfAnyValues:StringLike {{{values}}}"


def _group(terms: list[str]) -> str:
    """All terms, in pairs: Azure wants brackets around every two."""
    joined = terms[0]
    for term in terms[1:]:
        joined = f"({joined} AND {term})"
    return joined

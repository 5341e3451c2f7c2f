"""Google Cloud: custom roles of one verb each, bound on the bucket with a condition on the object's name.

What IAM conditions can express: `startsWith`, `endsWith` and `extract` on `resource.name`, and equality of
what they give. So one part of a path can be exact: cut it out with `extract`, put the name together
again, compare. An identity with `create` and without `delete` cannot overwrite.

What they cannot: overwriting takes `create` and `delete`, so an identity that may hint a key may also
create and delete it, which costs time, never truth (law 2); and the janitor, which deletes, could replace
what it may create, except floors, which it may not delete. Two open parts in one name cannot both be
exact. A listing is checked against the bucket, not against objects: its prefix is seen as the attribute
`objectListPrefix`.
"""

from collections.abc import Iterator

from arco.core.json import Json
from arco.storage.iam.policy import PolicyTarget, is_open
from arco.storage.roles import EVERYTHING, FLOORS, RULES, Role, Verb, patterns


def _loose() -> list[str]:
    """The patterns that a condition cannot render exactly: those with two open parts in a name."""
    every = {pattern for rule in RULES for pattern in rule.patterns}
    return sorted(each for each in every if each.removesuffix("/*").count("*") > 1)


NOTES = (
    (
        "Replace PROJECT_ID and the service accounts; create the roles with `gcloud iam roles create`, "
        "add the bindings with `gcloud storage buckets add-iam-policy-binding --condition-from-file`. "
        "The bucket needs uniform bucket-level access."
    ),
    (
        "An identity that may overwrite a hint may also create and delete it, and the janitor could "
        "replace what it may create, except floors: replacing takes create and delete."
    ),
    f"Looser than the table, because one part of a name can be cut out: {', '.join(_loose())}.",
    (
        "An identity that may read may also list what it may read: Cloud Storage may answer 403 "
        "instead of 404 for a missing object to an identity that may not list. If `arco doctor` says "
        "that a missing object is denied, grant storage.objects.list on the bucket, and use one "
        "bucket for each workspace."
    ),
    "Signing needs roles/iam.serviceAccountTokenCreator of the service account on itself.",
)

_MAX_GROUP = 4  # patterns in one condition: it may hold 12 logical operators

_ROLES: dict[Verb, tuple[str, tuple[str, ...]]] = {
    Verb.GET: ("arcoGet", ("storage.objects.get",)),
    Verb.LIST: ("arcoList", ("storage.objects.list",)),
    Verb.CREATE: ("arcoCreate", ("storage.objects.create",)),
    Verb.HINT: ("arcoHint", ("storage.objects.create", "storage.objects.delete")),
    Verb.DELETE: ("arcoDelete", ("storage.objects.delete",)),
}

_IS_FLOOR = f'resource.name.extract("{FLOORS}{{rest}}") != ""'
_IS_NO_FLOOR = f'resource.name.extract("{FLOORS}{{rest}}") == ""'
_LIST_PREFIX = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'


def render(target: PolicyTarget, role: Role) -> Json:
    """The custom roles that one role needs, and its bindings on the bucket."""
    conditions = {verb: list(_conditions(target, role, verb)) for verb in _ROLES}
    bindings: list[Json] = [
        _binding(role, verb, number, expression)
        for verb, expressions in conditions.items()
        for number, expression in enumerate(expressions, start=1)
    ]
    document: dict[str, Json] = {
        "customRoles": {
            _ROLES[verb][0]: _definition(verb) for verb in conditions if conditions[verb]
        },
        "bindings": bindings,
    }
    if patterns(role, Verb.SIGN):
        document["onTheServiceAccountItself"] = [
            {"role": "roles/iam.serviceAccountTokenCreator", "members": [_member(role)]}
        ]
    return document


def _conditions(target: PolicyTarget, role: Role, verb: Verb) -> Iterator[str]:
    allowed = patterns(role, verb)
    if verb is Verb.LIST:
        allowed = tuple(dict.fromkeys(allowed + patterns(role, Verb.GET)))
        terms = [f'{_LIST_PREFIX}.startsWith("{target.base}{_head(each)}")' for each in allowed]
    else:
        terms = [_is_like(target, each) for each in allowed]
    for start in range(0, len(terms), _MAX_GROUP):
        condition = " || ".join(terms[start : start + _MAX_GROUP])
        reads = verb in (Verb.GET, Verb.LIST)
        yield condition if reads else f"({condition}) && {_IS_NO_FLOOR}"
    if verb is Verb.CREATE and role is Role.JANITOR:
        yield f"{_is_like(target, EVERYTHING)} && {_IS_FLOOR}"


def _is_like(target: PolicyTarget, pattern: str) -> str:
    """A condition that holds for the names of a pattern."""
    root = f"projects/_/buckets/{target.bucket}/objects/{target.base}"
    head = root + _head(pattern)
    starts = f'resource.name.startsWith("{head}")'
    if pattern == EVERYTHING:
        return starts
    match pattern.removesuffix("/*").split("*"):
        case [_, end] if is_open(pattern):
            full, part = _extract(f"{head}{{part}}{end}/"), _extract(f"{head}{{part}}/")
            return f'({starts} && {full} != "" && {full} == {part})'
        case [_, end] if end:
            part = _extract(f"{head}{{part}}/")
            return f'({starts} && resource.name == "{head}" + {part} + "{end}")'
        case [_, *_, end] if end and not is_open(pattern):
            return f'({starts} && resource.name.endsWith("{end}"))'
        case _:
            return starts


def _head(pattern: str) -> str:
    """What stands before the first wildcard."""
    return "" if pattern == EVERYTHING else pattern.partition("*")[0]


def _extract(template: str) -> str:
    return f'resource.name.extract("{template}")'


def _definition(verb: Verb) -> Json:
    _, permissions = _ROLES[verb]
    return {"title": f"Arco: {verb}", "stage": "GA", "includedPermissions": list(permissions)}


def _binding(role: Role, verb: Verb, number: int, expression: str) -> Json:
    return {
        "role": f"projects/PROJECT_ID/roles/{_ROLES[verb][0]}",
        "members": [_member(role)],
        "condition": {"title": f"arco-{role}-{verb}-{number}", "expression": expression},
    }


def _member(role: Role) -> str:
    return f"serviceAccount:{role.upper()}_SERVICE_ACCOUNT"

"""AWS: one IAM policy for each role, to be attached to the role's identity.

What S3 can express: a write is a create if, and only if, it carries If-None-Match, which a policy sees as
the key `s3:if-none-match`; so creates and hints are distinguished, and nothing but a hint can be
overwritten. Multipart uploads carry no such header when they begin, so they are refused; Arco writes
each object in one request.

What it cannot: `*` in a resource crosses slashes (see `glob`). And S3 answers 403 instead of 404 for a
missing object unless the identity may list that key; Arco probes for missing objects all the time, so
an identity that may read may list the same names.
"""

from collections.abc import Iterable

from arco.core.errors import Invalid
from arco.core.json import Json, encode
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
    "Attach each policy to the identity of the process that has the role, and nothing else.",
    (
        "An identity that may read may also list what it may read: S3 answers 403 instead of 404 "
        "for a missing object to an identity that may not list."
    ),
    f"Looser than the table, because '*' crosses slashes: {', '.join(loose_patterns())}.",
    "A bucket encrypted with a KMS key of your own needs kms:Decrypt and kms:GenerateDataKey too.",
)

_MAX_POLICY = 6_144  # characters of a managed policy, white space not counted

_IS_CREATE: Json = {"Null": {"s3:if-none-match": "false"}}
_IS_OVERWRITE: Json = {"Null": {"s3:if-none-match": "true"}}


def render(target: PolicyTarget, role: Role) -> Json:
    """The policy document of one role."""
    statements = [
        *_reads(target, role),
        *_creates(target, role),
        *_hints(target, role),
        *_deletes(target, role),
    ]
    policy: Json = {"Version": "2012-10-17", "Statement": statements}
    if len(encode(policy).replace(b" ", b"")) > _MAX_POLICY:
        raise Invalid(f"the policy of {role} would be too long for AWS: use a shorter prefix")
    return policy


def _reads(target: PolicyTarget, role: Role) -> list[Json]:
    readable = patterns(role, Verb.GET)
    listable = dict.fromkeys(readable + patterns(role, Verb.LIST))
    prefixes: list[Json] = [target.base + to_listing_glob(each) for each in listable]
    prefix_condition: Json = {"StringLike": {"s3:prefix": prefixes}}
    return [
        _statement("Read", "Allow", "s3:GetObject", _arns(target, map(to_glob, readable))),
        _statement("ListWhatCanBeRead", "Allow", "s3:ListBucket", [_arn(target)], prefix_condition),
    ]


def _creates(target: PolicyTarget, role: Role) -> list[Json]:
    globs = [to_glob(each) for each in patterns(role, Verb.CREATE)]
    if not globs:
        return []
    if role is Role.JANITOR:
        allowed = _arns(target, [*globs, *floor_globs()])
        return [_statement("Create", "Allow", "s3:PutObject", allowed, _IS_CREATE)]
    return [
        _statement("Create", "Allow", "s3:PutObject", _arns(target, globs), _IS_CREATE),
        _statement("NeverWriteFloors", "Deny", "s3:PutObject", _arns(target, floor_globs())),
    ]


def _hints(target: PolicyTarget, role: Role) -> list[Json]:
    globs = [to_glob(each) for each in patterns(role, Verb.HINT)]
    if not globs:
        return []
    deep = too_deep(role, Verb.HINT)
    statements = [_statement("Hint", "Allow", "s3:PutObject", _arns(target, globs), _IS_OVERWRITE)]
    if deep:
        statements.append(
            _statement("HintNoDeeper", "Deny", "s3:PutObject", _arns(target, deep), _IS_OVERWRITE)
        )
    return statements


def _deletes(target: PolicyTarget, role: Role) -> list[Json]:
    globs = [to_glob(each) for each in patterns(role, Verb.DELETE)]
    if not globs:
        return []
    # Versions stay out of reach: on a versioned bucket, history survives even the janitor.
    return [
        _statement("Delete", "Allow", "s3:DeleteObject", _arns(target, globs)),
        _statement("NeverDeleteFloors", "Deny", "s3:DeleteObject", _arns(target, floor_globs())),
    ]


def _statement(
    sid: str, effect: str, action: str, resources: list[Json], condition: Json = None
) -> Json:
    statement: dict[str, Json] = {
        "Sid": sid,
        "Effect": effect,
        "Action": action,
        "Resource": resources,
    }
    if condition is not None:
        statement["Condition"] = condition
    return statement


def _arns(target: PolicyTarget, globs: Iterable[str]) -> list[Json]:
    return [f"{_arn(target)}/{target.base}{each}" for each in globs]


def _arn(target: PolicyTarget) -> str:
    return f"arn:aws:s3:::{target.bucket}"

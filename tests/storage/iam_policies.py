"""Just enough of each cloud's policy engine to ask a rendered document what it allows.

They know only the operators that the documents use, and fail on any other.
"""

import re
from typing import Any, Protocol

from arco.storage.iam.policy import PolicyTarget
from arco.storage.roles import Role, Verb


class Engine(Protocol):
    """A policy engine with one document loaded."""

    def allows(self, role: Role, verb: Verb, path: str) -> bool:
        """Whether the cloud would do it; a listing's path is its prefix. Paths are whole keys."""


class Aws:
    """IAM: an explicit Deny wins, else any Allow."""

    def __init__(self, document: Any, target: PolicyTarget) -> None:
        self._policies = document["roles"]
        self._bucket = f"arn:aws:s3:::{target.bucket}"

    def allows(self, role: Role, verb: Verb, path: str) -> bool:
        action, context = {
            Verb.GET: ("s3:GetObject", {}),
            Verb.SIGN: ("s3:GetObject", {}),
            Verb.LIST: ("s3:ListBucket", {"s3:prefix": path}),
            Verb.CREATE: ("s3:PutObject", {"s3:if-none-match": "*"}),
            Verb.HINT: ("s3:PutObject", {}),
            Verb.DELETE: ("s3:DeleteObject", {}),
        }[verb]
        resource = self._bucket if verb is Verb.LIST else f"{self._bucket}/{path}"
        effects = {
            statement["Effect"]
            for statement in self._policies[role]["Statement"]
            if statement["Action"] == action
            and any(is_like(resource, each) for each in statement["Resource"])
            and _aws_condition(statement.get("Condition", {}), context)
        }
        return effects == {"Allow"}


def _aws_condition(condition: dict[str, dict[str, Any]], context: dict[str, str]) -> bool:
    for operator, tests in condition.items():
        for key, values in tests.items():
            if operator == "Null":
                holds = (key not in context) == (values == "true")
            elif operator == "StringLike":
                holds = any(is_like(context.get(key, ""), each) for each in values)
            else:
                raise NotImplementedError(operator)
            if not holds:
                return False
    return True


class Gcp:
    """Bindings of custom roles, each under a condition; replacing takes create and delete."""

    def __init__(self, document: Any, target: PolicyTarget) -> None:
        self._roles = document["roles"]
        self._bucket = f"projects/_/buckets/{target.bucket}"

    def allows(self, role: Role, verb: Verb, path: str) -> bool:
        permissions = {
            Verb.GET: ["get"],
            Verb.SIGN: ["get"],
            Verb.LIST: ["list"],
            Verb.CREATE: ["create"],
            Verb.HINT: ["create", "delete"],
            Verb.DELETE: ["delete"],
        }[verb]
        listing = verb is Verb.LIST
        name = self._bucket if listing else f"{self._bucket}/objects/{path}"
        granted = self._permissions(role, name, path if listing else None)
        return {f"storage.objects.{each}" for each in permissions} <= granted

    def _permissions(self, role: Role, name: str, prefix: str | None) -> set[str]:
        document = self._roles[role]
        granted: set[str] = set()
        for binding in document["bindings"]:
            custom = document["customRoles"][binding["role"].rpartition("/")[2]]
            if _cel(binding["condition"]["expression"], name, prefix):
                granted.update(custom["includedPermissions"])
        return granted


class _Text(str):
    """A string of the expression language."""

    __slots__ = ()

    def startsWith(self, prefix: str) -> bool:  # noqa: N802
        return self.startswith(prefix)

    def endsWith(self, suffix: str) -> bool:  # noqa: N802
        return self.endswith(suffix)

    def extract(self, template: str) -> "_Text":
        before, _, rest = template.partition("{")
        after = rest.partition("}")[2]
        start = self.find(before)
        if start < 0:
            return _Text("")
        start += len(before)
        end = self.find(after, start) if after else len(self)
        return _Text(self[start:end] if end >= 0 else "")


class _Resource:
    def __init__(self, name: str) -> None:
        self.name = _Text(name)


class _Api:
    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix

    def getAttribute(self, name: str, default: str) -> _Text:  # noqa: N802
        assert name == "storage.googleapis.com/objectListPrefix"
        return _Text(default if self._prefix is None else self._prefix)


def _cel(expression: str, name: str, prefix: str | None) -> bool:
    """The subset that is the same in Python, once its operators are spelled in words."""
    python = expression.replace("||", " or ").replace("&&", " and ")
    world = {"resource": _Resource(name), "api": _Api(prefix), "__builtins__": {}}
    return bool(eval(python, world))


class Azure:
    """A role's data actions, under the condition of its assignment."""

    def __init__(self, document: Any, target: PolicyTarget) -> None:
        self._roles = document["roles"]
        self._container = target.bucket

    def allows(self, role: Role, verb: Verb, path: str) -> bool:
        # A new blob takes either action; replacing one takes write.
        actions = {
            Verb.GET: ["read"],
            Verb.SIGN: ["read"],
            Verb.LIST: ["read"],
            Verb.CREATE: ["add/action", "write"],
            Verb.HINT: ["write"],
            Verb.DELETE: ["delete"],
        }[verb]
        return any(self._allows(role, f"{_BLOBS}/{each}", verb, path) for each in actions)

    def _allows(self, role: Role, action: str, verb: Verb, path: str) -> bool:
        document = self._roles[role]
        if action not in document["definition"]["DataActions"]:
            return False
        listing = verb is Verb.LIST
        attributes = {
            "Microsoft.Storage/storageAccounts/blobServices/containers:name": self._container,
            f"{_BLOBS}:prefix" if listing else f"{_BLOBS}:path": path,
        }
        condition = document["assignments"][0]["condition"]
        return _abac(condition, action, "Blob.List" if listing else "", attributes)


_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


def _abac(condition: str, action: str, operation: str, attributes: dict[str, str]) -> bool:
    python = re.sub(r"SubOperationMatches\{('[^']*')\}", r"is_operation(\1)", condition)
    python = re.sub(r"ActionMatches\{('[^']*')\}", r"is_action(\1)", python)
    python = re.sub(
        r"@(?:Resource|Request)\[([^\]]+)\] ([\w:]+) (\{[^}]*\}|'[^']*')",
        r"holds('\1', '\2', \3)",
        python,
    )
    python = python.replace("!(", " not (")
    python = re.sub(r"\b(AND|OR|NOT)\b", lambda word: word[0].lower(), python)

    def holds(attribute: str, operator: str, operand: str | set[str]) -> bool:
        value = attributes.get(attribute)
        if value is None:
            return False
        values = {operand} if isinstance(operand, str) else operand
        if operator in ("StringLike", "ForAnyOfAnyValues:StringLike"):
            return any(is_like(value, each) for each in values)
        if operator == "StringNotLike":
            return not any(is_like(value, each) for each in values)
        if operator == "StringNotEquals":
            return value not in values
        raise NotImplementedError(operator)

    world = {
        "is_action": lambda name: name == action,
        "is_operation": lambda name: name == operation,
        "holds": holds,
        "__builtins__": {},
    }
    return bool(eval(python, world))


def is_like(text: str, pattern: str) -> bool:
    """`*` is any characters, `?` is one; both cross slashes, on AWS and on Azure."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, text, re.DOTALL) is not None

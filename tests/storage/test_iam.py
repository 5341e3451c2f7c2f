"""The rendered policies say what the table says, on every cloud, but for what is listed here."""

from collections.abc import Callable
from typing import Any

import pytest

from arco.core.errors import Invalid
from arco.core.json import encode
from arco.core.scope import Scope
from arco.storage.iam import render
from arco.storage.iam.policy import Cloud, PolicyTarget, make_target
from arco.storage.roles import EVERYTHING, RULES, Role, Verb, may, patterns
from tests.storage.iam_policies import Aws, Azure, Engine, Gcp

TARGET = PolicyTarget("lake", "warehouse/prod/", Scope("acme", "main"))

Looseness = Callable[[Role, Verb, str], bool]


def _lists_what_it_reads(role: Role, verb: Verb, key: str) -> bool:
    return verb is Verb.LIST and may(role, Verb.GET, key + "_")


def _creates_what_it_hints(role: Role, verb: Verb, key: str) -> bool:
    return verb is Verb.CREATE and may(role, Verb.HINT, key)


def _deletes_what_it_hints(role: Role, verb: Verb, key: str) -> bool:
    return verb is Verb.DELETE and may(role, Verb.HINT, key)


def _replaces_what_it_deletes_and_creates(role: Role, verb: Verb, key: str) -> bool:
    return verb is Verb.HINT and may(role, Verb.DELETE, key) and may(role, Verb.CREATE, key)


def _metadata_folders_further_down(role: Role, verb: Verb, key: str) -> bool:
    return (
        (role, verb) == (Role.API, Verb.CREATE)
        and key.startswith("warehouse/")
        and "/metadata/" in key
        and "/floor/" not in key
    )


def _renewals_further_down(role: Role, verb: Verb, key: str) -> bool:
    return (
        role is Role.API
        and verb in (Verb.CREATE, Verb.HINT, Verb.DELETE)
        and key.startswith("locks/")
        and key.endswith(".renewal.json")
    )


ENGINES: dict[Cloud, Callable[[Any, PolicyTarget], Engine]] = {
    Cloud.AWS: Aws,
    Cloud.AZURE: Azure,
    Cloud.GCP: Gcp,
}

# All that a policy allows and the table does not; each must be needed.
LOOSE: dict[Cloud, tuple[Looseness, ...]] = {
    Cloud.AWS: (_lists_what_it_reads, _metadata_folders_further_down),
    Cloud.AZURE: (_creates_what_it_hints, _metadata_folders_further_down),
    Cloud.GCP: (
        _lists_what_it_reads,
        _creates_what_it_hints,
        _deletes_what_it_hints,
        _replaces_what_it_deletes_and_creates,
        _renewals_further_down,
    ),
}


def _engine(cloud: Cloud, target: PolicyTarget = TARGET) -> Engine:
    return ENGINES[cloud](render(cloud, target), target)


def _samples() -> list[str]:
    """Keys inside, beside, above and below every pattern, and floors of every chain."""
    samples = {"floor/x.json", "tenant=acme/workspace=main/ledger/x", "x", "ledger", "_probe"}
    for pattern in {each for rule in RULES for each in rule.patterns}:
        if pattern == EVERYTHING:
            continue
        flat = pattern.replace("*", "a")
        deep = pattern.replace("*", "a/b")
        samples |= {
            flat,
            deep,
            f"{flat}/c.json",
            f"x/{flat}",
            f"{flat}x",
            flat.replace("/", "x/", 1),
            flat.upper(),
            flat.rpartition("/")[0],
            f"{flat.rpartition('/')[0]}/floor/00000000000000000000.json",
            f"{flat.rpartition('/')[0]}/head.json",
            f"{deep}/floor/1.json",
            f"{deep}/metadata/b/metadata/c.json",
            f"{flat}/head.json/head.json",
            f"{flat}.renewal.json",
        }
    return sorted(samples)


KEYS = _samples()
FOLDERS = sorted({"", *(key.rpartition("/")[0] + "/" for key in KEYS if "/" in key)})


def _questions() -> list[tuple[Role, Verb, str, bool]]:
    questions = []
    for role in Role:
        for verb in Verb:
            for path in FOLDERS if verb is Verb.LIST else KEYS:
                allowed = may(role, verb, path + "_" if verb is Verb.LIST else path)
                questions.append((role, verb, path, allowed))
    return questions


@pytest.mark.parametrize("cloud", Cloud)
def test_a_policy_allows_all_that_the_table_allows(cloud: Cloud) -> None:
    engine = _engine(cloud)

    refused = [
        (role, verb, path)
        for role, verb, path, allowed in _questions()
        if allowed and not engine.allows(role, verb, TARGET.base + path)
    ]

    assert refused == []


@pytest.mark.parametrize("cloud", Cloud)
def test_a_policy_allows_nothing_more_but_what_is_listed(cloud: Cloud) -> None:
    engine = _engine(cloud)

    excess = [
        (role, verb, path)
        for role, verb, path, allowed in _questions()
        if not allowed and verb is not Verb.SIGN and engine.allows(role, verb, TARGET.base + path)
    ]

    unlisted = [each for each in excess if not any(loose(*each) for loose in LOOSE[cloud])]
    assert unlisted == []
    for loose in LOOSE[cloud]:
        assert any(loose(*each) for each in excess), f"{loose.__name__} is not needed any more"


@pytest.mark.parametrize("cloud", Cloud)
def test_a_policy_reaches_nothing_outside_its_workspace(cloud: Cloud) -> None:
    engine = _engine(cloud)
    outside = [
        "",
        "warehouse/prod/",
        "warehouse/prod/tenant=acme/",
        "warehouse/prod/tenant=acme/workspace=mainx/",
        "warehouse/prod/tenant=acme/workspace=other/",
        "warehouse/prod/tenant=acmex/workspace=main/",
        "warehouse/prodx/tenant=acme/workspace=main/",
        "tenant=acme/workspace=main/",
        f"evil/{TARGET.base}",
        f"projects/_/buckets/lake/objects/{TARGET.base}",
    ]
    reached = [
        (role, verb, prefix + key)
        for prefix in outside
        for role in Role
        for verb in Verb
        for key in (
            "ledger/d/s/1.jsonl",
            "sequence/d/head.json",
            "warehouse/t/metadata/m",
            "floor/1",
        )
        if engine.allows(role, verb, prefix + key)
    ]
    reached += [
        (role, Verb.LIST, prefix)
        for prefix in outside
        for role in Role
        if engine.allows(role, Verb.LIST, prefix)
    ]

    assert reached == []


@pytest.mark.parametrize("cloud", Cloud)
def test_only_hints_can_be_overwritten_and_only_by_who_writes_them(cloud: Cloud) -> None:
    engine = _engine(cloud)
    number = f"{TARGET.base}manifests/catalog/00000000000000000007.json"
    head = f"{TARGET.base}manifests/catalog/head.json"

    assert engine.allows(Role.COMPACTOR, Verb.CREATE, number)
    assert not any(engine.allows(role, Verb.HINT, number) for role in Role)
    writers = [role for role in Role if engine.allows(role, Verb.HINT, head)]
    assert writers == [Role.COMPACTOR, Role.JANITOR]


@pytest.mark.parametrize("cloud", Cloud)
def test_only_the_janitor_creates_floors_and_only_it_deletes_numbers(cloud: Cloud) -> None:
    engine = _engine(cloud)
    floor = f"{TARGET.base}sequence/catalog/floor/00000000000000000000.json"
    number = f"{TARGET.base}sequence/catalog/000000000001.json"

    assert [role for role in Role if engine.allows(role, Verb.CREATE, floor)] == [Role.JANITOR]
    assert [role for role in Role if engine.allows(role, Verb.DELETE, number)] == [Role.JANITOR]


@pytest.mark.parametrize("cloud", Cloud)
def test_no_role_deletes_or_overwrites_a_floor_of_any_chain(cloud: Cloud) -> None:
    """Not even the janitor: without its floor, what was collected looks as if it had never been."""
    engine = _engine(cloud)
    floors = [key for key in KEYS if "/floor/" in f"/{key}"]
    assert len(floors) > len(RULES)
    for verb in (Verb.DELETE, Verb.HINT):
        allowed = [
            (role, key)
            for role in Role
            for key in floors
            if engine.allows(role, verb, TARGET.base + key)
        ]
        assert allowed == []


@pytest.mark.parametrize("cloud", Cloud)
def test_a_role_that_may_sign_has_the_permissions_for_it(cloud: Cloud) -> None:
    for role in Role:
        for pattern in patterns(role, Verb.SIGN):
            assert may(role, Verb.GET, pattern.replace("*", "a"))

    rendered: Any = render(cloud, TARGET)
    for role in Role:
        signs = bool(patterns(role, Verb.SIGN))
        text = encode(rendered["roles"][role]).decode()
        extra = {"aws": "", "azure": "Storage Blob Delegator", "gcp": "serviceAccountTokenCreator"}
        assert cloud is Cloud.AWS or (extra[cloud] in text) == signs


@pytest.mark.parametrize("cloud", Cloud)
@pytest.mark.parametrize(
    ("bucket", "prefix"),
    [
        ("*", ""),
        ("la*ke", ""),
        ("lake?", ""),
        ("${aws:username}", ""),
        ("Lake", ""),
        ("la", ""),
        ("x" * 64, ""),
        ("lake/other", ""),
        ("lake", "*"),
        ("lake", "a?c"),
        ("lake", "${aws:PrincipalTag/x}"),
        ("lake", "it's"),
        ("lake", 'say "x"'),
        ("lake", "a{b}"),
        ("lake", "a\\b"),
        ("lake", "a b"),
        ("lake", "a//b"),
        ("lake", "../up"),
        ("lake", "a\nb"),
        ("lake", "my/floor/x"),
        ("lake", "floor"),
        ("floor", ""),
    ],
)
def test_a_name_that_could_widen_a_policy_is_refused(
    cloud: Cloud, bucket: str, prefix: str
) -> None:
    with pytest.raises(Invalid):
        render(cloud, make_target(bucket, prefix, Scope()))


@pytest.mark.parametrize("cloud", [Cloud.AWS, Cloud.AZURE])
def test_a_policy_that_would_be_cut_off_is_refused_and_never_widened(cloud: Cloud) -> None:
    with pytest.raises(Invalid, match="too long"):
        render(cloud, make_target("lake", "/".join(["deep" * 20] * 9), Scope()))


@pytest.mark.parametrize("prefix", ["lake/house", "/lake/house/", "lake/house/"])
def test_slashes_around_a_prefix_do_not_matter(prefix: str) -> None:
    assert make_target("lake", prefix, Scope()).base.startswith("lake/house/tenant=default/")


def test_a_google_condition_stays_within_twelve_operators_and_twenty_bindings_of_a_role() -> None:
    rendered: Any = render(Cloud.GCP, TARGET)
    for document in rendered["roles"].values():
        names = [binding["role"] for binding in document["bindings"]]
        assert max(names.count(name) for name in names) <= 20
        for binding in document["bindings"]:
            expression = binding["condition"]["expression"]
            assert expression.count("||") + expression.count("&&") <= 12


@pytest.mark.parametrize("cloud", Cloud)
def test_the_document_says_where_it_comes_from_and_what_it_cannot_say(cloud: Cloud) -> None:
    rendered: Any = render(cloud, TARGET, (Role.READER,))

    assert "roles.py" in rendered["generated"]
    assert rendered["notes"]
    assert "api to create, get; janitor to delete, get, list." in rendered["notes"][-1]
    assert list(rendered["roles"]) == ["reader"]

"""From the header to a principal, by every way there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.access.identity import BearerIdentity, Identity, NoIdentity, ServiceToken
from arco.access.principal import Principal, PrincipalRole
from arco.access.token import LocalTokens, parse_bearer
from arco.core.errors import Denied, Invalid, Unauthenticated
from arco.core.scope import Scope
from tests.access.forged_tokens import INSTALLATION_KEY
from tests.clocks import HandClock, hand_runtime

HERE = Scope("acme", "eu-1")
ANA = Principal("user:ana", HERE, ("analysts",))
SECRET = "s3cret-of-the-service"
TOKENS = LocalTokens(INSTALLATION_KEY, hand_runtime(HandClock()))
TOKEN = TOKENS.mint(ANA, life_s=60)

NOT_ONE_TOKEN = [
    *(None, "", " ", "Bearer", "Bearer ", "bearer:x", "Bearerx", "Basic YTpi", "Token x"),
    *("Bearer x y", "Bearer x, Bearer x", "Bearer x,Bearer x", "Bearer x ", " Bearer x"),
    *(
        "Bearer\tx",
        "Bearer\nx",
        "Bearer x\n",
        "Bearer x\0",
        "Bearer é",
        "Bearer \ud800",
        'Bearer "x"',
    ),
    *("Bearer =x", "Bearer Bearer x", "Bearer x;y", "Basic x, Bearer x", "\u0042earer\u00a0x"),
]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_read_in_any_case(scheme: str) -> None:
    assert parse_bearer(f"{scheme} {TOKEN}") == TOKEN
    assert parse_bearer(f"{scheme}   {TOKEN}") == TOKEN


@pytest.mark.parametrize("value", NOT_ONE_TOKEN)
async def test_a_header_without_exactly_one_token_proves_nothing(value: str | None) -> None:
    ways: tuple[Identity, ...] = (BearerIdentity(TOKENS, HERE), ServiceToken(SECRET, HERE))
    for identity in ways:
        with pytest.raises(Unauthenticated):
            await identity.identify(value)


@given(st.text())
def test_no_header_raises_anything_but_a_refusal(text: str) -> None:
    for value in (text, f"Bearer {text}"):
        try:
            assert " " not in parse_bearer(value)
        except Unauthenticated as refused:
            assert str(refused) == "the bearer token is missing or not valid; ask for a new one"


async def test_a_token_of_a_served_scope_is_let_in() -> None:
    for identity in (BearerIdentity(TOKENS, HERE), BearerIdentity(TOKENS, Scope(), HERE)):
        assert await identity.identify(f"Bearer {TOKEN}") == ANA


async def test_a_good_token_of_a_scope_that_is_not_served_is_denied_though_it_is_known() -> None:
    for identity in (BearerIdentity(TOKENS, Scope()), BearerIdentity(TOKENS)):
        with pytest.raises(Denied) as refused:
            await identity.identify(f"Bearer {TOKEN}")
        assert not isinstance(refused.value, Unauthenticated)
        assert TOKEN not in str(refused.value)


async def test_a_token_that_is_not_valid_is_refused() -> None:
    with pytest.raises(Unauthenticated):
        await BearerIdentity(TOKENS, HERE).identify(f"Bearer {TOKEN[:-1]}")


@pytest.mark.parametrize("value", [None, "", "Bearer x", f"Bearer {TOKEN}"])
async def test_without_identities_every_caller_is_the_local_user(value: str | None) -> None:
    assert await NoIdentity(HERE).identify(value) == Principal("user:local", HERE)


async def test_the_service_token_makes_a_service_of_its_scope() -> None:
    principal = await ServiceToken(SECRET, HERE).identify(f"Bearer {SECRET}")
    assert principal == Principal("client:service", HERE, role=PrincipalRole.SERVICE)


@pytest.mark.parametrize(
    "other",
    [SECRET[:-1], SECRET + "x", SECRET.upper(), SECRET + "=", "x" * len(SECRET), TOKEN, "x"],
)
async def test_any_other_service_token_is_refused(other: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await ServiceToken(SECRET, HERE).identify(f"Bearer {other}")
    assert other not in str(refused.value).split()


async def test_the_service_token_opens_nothing_for_callers() -> None:
    with pytest.raises(Unauthenticated):
        await BearerIdentity(TOKENS, HERE).identify(f"Bearer {SECRET}")


@pytest.mark.parametrize("secret", ["", "x", "x" * 15])
def test_a_short_service_token_is_refused_at_the_start(secret: str) -> None:
    with pytest.raises(Invalid, match="at least 16 characters"):
        ServiceToken(secret, HERE)


@pytest.mark.parametrize("secret", ["x" * 16 + "\n", "a secret of blanks", "ü" * 16, "=" * 16])
def test_a_service_token_that_no_header_can_carry_is_refused_at_the_start(secret: str) -> None:
    with pytest.raises(Invalid, match="made of") as refused:
        ServiceToken(secret, HERE)
    assert secret not in str(refused.value)


def test_the_secret_does_not_show_when_the_service_token_is_printed() -> None:
    service = ServiceToken("x" * 16, HERE)
    assert "x" * 16 not in f"{service!r} {vars(service)!r}"

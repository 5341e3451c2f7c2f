"""Local tokens: what mint writes is believed until it expires, and nothing else ever is."""

import base64
import json
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

from arco.access.principal import Principal, PrincipalRole
from arco.access.token import MAX_LIFE_S, MAX_TOKEN_CHARS, LocalTokens
from arco.core.errors import Denied, Invalid, Unauthenticated
from arco.core.scope import Scope
from arco.storage.signing import UrlSigner, installation_key
from tests.access import cases
from tests.access.forged_tokens import (
    CLAIMS,
    DAY_S,
    INSTALLATION_KEY,
    NOW_S,
    TOKEN_KEY,
    sign,
    token,
    with_header_text,
    with_payload_text,
)
from tests.clocks import HandClock, hand_runtime
from tests.figures import Figure

ACME = Scope("acme", "eu-1")
ANA = Principal("user:ana", ACME, ("analysts",))


def local_tokens(clock: HandClock | None = None, key: bytes = INSTALLATION_KEY) -> LocalTokens:
    return LocalTokens(key, hand_runtime(clock or HandClock(NOW_S * 1_000)))


TOKENS = local_tokens()


def is_accepted(text: str) -> bool:
    try:
        TOKENS.verify(text)
    except Unauthenticated:
        return False
    return True


@pytest.mark.parametrize("name", cases.GOOD)
def test_a_good_token_passes(name: str) -> None:
    assert TOKENS.verify(cases.GOOD[name]).name.startswith(("user:", "client:"))


@pytest.mark.parametrize("name", cases.BAD)
def test_a_bad_token_is_refused_in_one_constant_sentence(name: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        TOKENS.verify(cases.BAD[name])
    assert str(refused.value) == "the bearer token is missing or not valid; ask for a new one"
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_the_whole_matrix(figure: Figure) -> None:
    wrong_accepts = [name for name, text in cases.BAD.items() if is_accepted(text)]
    wrong_rejects = [name for name, text in cases.GOOD.items() if not is_accepted(text)]
    assert (wrong_accepts, wrong_rejects) == ([], [])
    assert len(set(cases.BAD.values())) == len(cases.BAD) >= 40
    figure(
        f"{len(cases.BAD) + len(cases.GOOD)} token cases: {len(wrong_accepts)} wrong accepts, "
        f"{len(wrong_rejects)} wrong rejects"
    )


def test_a_token_made_by_hand_says_who_it_is_for() -> None:
    assert TOKENS.verify(token()) == ANA


def test_a_minted_token_proves_its_principal() -> None:
    client = Principal("client:Zoë", Scope(), ("a", "b c"))
    for principal in (ANA, client):
        assert TOKENS.verify(TOKENS.mint(principal, life_s=60)) == principal


def test_a_minted_token_carries_all_claims_and_reads_as_any_other_jwt() -> None:
    minted = TOKENS.mint(ANA, life_s=DAY_S)
    read = jwt.decode(minted, OctKey.import_key(TOKEN_KEY), ["HS256"])
    assert read.header == {"alg": "HS256", "typ": "JWT", "kid": "arco-token-1"}
    assert {**read.claims, "jti": "01J"} == dict(CLAIMS)


def test_no_two_tokens_share_an_id() -> None:
    tokens = local_tokens()
    ids = set()
    for _ in range(100):
        payload = tokens.mint(ANA, life_s=60).split(".")[1]
        ids.add(json.loads(base64.urlsafe_b64decode(payload + "=="))["jti"])
    assert len(ids) == 100


def test_a_token_of_another_library_passes_if_it_says_the_same() -> None:
    made = jwt.encode({"alg": "HS256"}, dict(CLAIMS), OctKey.import_key(TOKEN_KEY))
    assert TOKENS.verify(made) == ANA


def test_a_token_lives_as_long_as_it_was_given_and_a_minute_of_skew() -> None:
    clock = HandClock(NOW_S * 1_000)
    tokens = local_tokens(clock)
    minted = tokens.mint(ANA, life_s=100)
    clock.pass_ms(159_999)
    assert tokens.verify(minted) == ANA
    clock.pass_ms(1)
    with pytest.raises(Unauthenticated):
        tokens.verify(minted)


def test_a_token_that_differs_from_a_genuine_one_is_verified_itself() -> None:
    genuine = token()
    assert TOKENS.verify(genuine) == ANA
    head, claims, signature = genuine.split(".")
    for other in (f"{head}.{claims}.{signature[::-1]}", f"{head}.{claims}.", genuine + "A"):
        with pytest.raises(Unauthenticated):
            TOKENS.verify(other)
    assert TOKENS.verify(genuine) == ANA


def test_a_token_is_believed_by_a_clock_that_is_a_minute_behind_and_no_more() -> None:
    clock = HandClock(NOW_S * 1_000)
    tokens = local_tokens(clock)
    minted = tokens.mint(ANA, life_s=100)
    clock.jump_ms(-60_000)
    assert tokens.verify(minted) == ANA
    clock.jump_ms(-1)
    with pytest.raises(Unauthenticated):
        tokens.verify(minted)


@pytest.mark.parametrize("life_s", [-1, 0, MAX_LIFE_S + 1, 10**18])
def test_no_token_is_minted_for_no_time_or_for_too_long(life_s: int) -> None:
    with pytest.raises(Invalid, match="seconds"):
        TOKENS.mint(ANA, life_s=life_s)


def test_a_shorter_limit_holds_for_minting_and_for_tokens_that_are_about() -> None:
    strict = LocalTokens(
        INSTALLATION_KEY, hand_runtime(HandClock(NOW_S * 1_000)), longest_life_s=3_600
    )
    assert strict.verify(strict.mint(ANA, life_s=3_600)) == ANA
    with pytest.raises(Invalid):
        strict.mint(ANA, life_s=3_601)
    with pytest.raises(Unauthenticated):
        strict.verify(TOKENS.mint(ANA, life_s=3_601))


def test_no_token_is_minted_that_would_be_too_long_to_be_accepted() -> None:
    fits = Principal("user:ana", ACME, ("g" * 200,) * 28)
    assert len(TOKENS.mint(fits, life_s=60)) <= MAX_TOKEN_CHARS
    with pytest.raises(Invalid, match="groups"):
        TOKENS.mint(Principal("user:ana", ACME, ("g" * 200,) * 31), life_s=60)


def test_no_token_is_minted_for_a_service() -> None:
    with pytest.raises(Invalid, match="service token"):
        TOKENS.mint(Principal("client:service", ACME, role=PrincipalRole.SERVICE), life_s=60)


def test_no_token_makes_a_service() -> None:
    assert {TOKENS.verify(text).role for text in cases.GOOD.values()} == {PrincipalRole.CALLER}


@pytest.mark.parametrize("size", [0, 16, 31])
def test_a_short_key_is_refused(size: int) -> None:
    with pytest.raises(Invalid, match="32 bytes"):
        local_tokens(key=b"k" * size)


def test_tokens_and_urls_of_one_installation_do_not_open_each_other(tmp_path: Path) -> None:
    key = installation_key(tmp_path / "key", random.Random(1))
    tokens, signer = local_tokens(key=key), UrlSigner(key, "")
    minted = tokens.mint(ANA, life_s=60)
    signature = base64.urlsafe_b64decode(minted.split(".")[2] + "=").hex()
    with pytest.raises(Denied):
        signer.verify(f"/files/a/b?expires={NOW_S + 60}&signature={signature}", NOW_S * 1_000)
    with pytest.raises(Unauthenticated):
        tokens.verify(token(key=key))
    assert tokens.verify(minted) == ANA


def test_neither_the_key_nor_a_token_shows_when_things_are_printed() -> None:
    shown = f"{TOKENS!r} {vars(TOKENS)!r}"
    for secret in (INSTALLATION_KEY, TOKEN_KEY):
        for spelled in (
            repr(secret)[2:-1],
            secret.hex(),
            base64.urlsafe_b64encode(secret).decode(),
        ):
            assert spelled.rstrip("=") not in shown


def test_every_changed_character_is_refused() -> None:
    tried = 0
    for at in range(len(cases.GENUINE)):
        for other in string.ascii_letters + string.digits + "-_.=+/ ":
            if other == cases.GENUINE[at]:
                continue
            tried += 1
            assert not is_accepted(cases.GENUINE[:at] + other + cases.GENUINE[at + 1 :])
    assert tried > 10_000


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_no_text_makes_the_check_raise_anything_but_a_refusal(text: str) -> None:
    head, body, signature = cases.GENUINE.split(".")
    for guess in (
        text,
        f"{text}.{body}.{signature}",
        f"{head}.{text}.{signature}",
        f"{head}.{text}",
    ):
        assert not is_accepted(guess)


@given(st.binary(), st.binary())
def test_no_bytes_under_a_genuine_signature_raise_anything_but_a_refusal(
    one: bytes, two: bytes
) -> None:
    assert not is_accepted(sign(one, two))
    assert not is_accepted(sign(b'{"alg":"HS256"}', two))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*CLAIMS, "x"]), JSON), JSON)
def test_no_json_under_a_genuine_signature_raises_anything_but_a_refusal(
    changed: dict[str, object], value: object
) -> None:
    # What is changed may by chance be another good token, but it is never an accident.
    is_accepted(with_payload_text(json.dumps({**CLAIMS, **changed})))
    assert not is_accepted(with_payload_text(json.dumps(value)))
    assert not is_accepted(with_header_text(json.dumps(value)))

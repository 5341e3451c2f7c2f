"""Tokens made by hand, with hmac and base64 alone: what a forger can write, and mint never would."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from types import MappingProxyType

INSTALLATION_KEY = bytes(range(32))
TOKEN_KEY = hmac.new(INSTALLATION_KEY, b"arco-token-1", hashlib.sha256).digest()

NOW_S = 1_800_000_000
DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S

HEADER: Mapping[str, object] = MappingProxyType({"alg": "HS256", "typ": "JWT"})
CLAIMS: Mapping[str, object] = MappingProxyType(
    {
        "iss": "arco-local",
        "aud": "arco",
        "sub": "user:ana",
        "iat": NOW_S,
        "nbf": NOW_S,
        "exp": NOW_S + DAY_S,
        "jti": "01J",
        "tenant_id": "acme",
        "workspace_id": "eu-1",
        "groups": ["analysts"],
    }
)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def seal(signed: str, key: bytes = TOKEN_KEY, algorithm: str = "sha256") -> str:
    """The token of this signing input, whatever it is."""
    return f"{signed}.{b64(hmac.new(key, signed.encode(), algorithm).digest())}"


def sign(header: bytes, payload: bytes, key: bytes = TOKEN_KEY) -> str:
    """A compact JWS of these very bytes, well-formed JSON or not."""
    return seal(f"{b64(header)}.{b64(payload)}", key)


def token(
    header: Mapping[str, object] = HEADER,
    claims: Mapping[str, object] = CLAIMS,
    key: bytes = TOKEN_KEY,
) -> str:
    return sign(_json(header), _json(claims), key)


def with_header(**members: object) -> str:
    return token(header={**HEADER, **members})


def with_claims(**members: object) -> str:
    return token(claims={**CLAIMS, **members})


def without(*names: str) -> str:
    """A token that lacks these headers or claims."""
    return token(
        {name: value for name, value in HEADER.items() if name not in names},
        {name: value for name, value in CLAIMS.items() if name not in names},
    )


def with_header_text(text: str) -> str:
    return sign(text.encode(), _json(CLAIMS))


def with_payload_text(text: str) -> str:
    return sign(_json(HEADER), text.encode())


def with_claim_text(name: str, text: str) -> str:
    """A token in which one claim is exactly this JSON, which Python might not write itself."""
    others = json.dumps({key: value for key, value in CLAIMS.items() if key != name})
    return with_payload_text(f'{others[:-1]}, "{name}": {text}}}')


def _json(members: Mapping[str, object]) -> bytes:
    return json.dumps(dict(members)).encode()

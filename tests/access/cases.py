"""The matrix of tokens: what must be refused and what must pass, each by its name.

All but a few of the bad ones carry a genuine signature, so that each is refused for its own reason.
"""

import json

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from arco.storage.signing import UrlSigner
from tests.access.forged_tokens import (
    CLAIMS,
    DAY_S,
    HEADER,
    INSTALLATION_KEY,
    NOW_S,
    TOKEN_KEY,
    YEAR_S,
    b64,
    seal,
    sign,
    token,
    with_claim_text,
    with_claims,
    with_header,
    with_header_text,
    with_payload_text,
    without,
)

GENUINE = token()
_HEAD, _BODY, _SIGNATURE = GENUINE.split(".")
_PAYLOAD = json.dumps(dict(CLAIMS))
_JWK = {"kty": "oct", "k": b64(TOKEN_KEY)}
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_EC = ec.generate_private_key(ec.SECP256R1())
_URL = UrlSigner(INSTALLATION_KEY, "http://localhost:8181").sign("a/b", NOW_S + DAY_S)
_URL_SIGNATURE = bytes.fromhex(_URL.rpartition("=")[2])


def _signing_input(**members: object) -> str:
    return f"{b64(json.dumps({**HEADER, **members}).encode())}.{_BODY}"


def _public(encoding: serialization.Encoding) -> bytes:
    return _RSA.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)


def _rs256() -> str:
    signed = _signing_input(alg="RS256")
    return f"{signed}.{b64(_RSA.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _es256() -> str:
    signed = _signing_input(alg="ES256")
    return f"{signed}.{b64(_EC.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))}"


def _swap_last_bits(text: str) -> str:
    """Another spelling of the same bytes: the last character has bits that nobody reads."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1]


GOOD = {
    "as mint writes it": GENUINE,
    "with the id of our key": with_header(kid="arco-token-1"),
    "without typ": without("typ"),
    "headers in another order": with_header_text('{"typ":"JWT","alg":"HS256"}'),
    "blanks in the JSON": with_payload_text(f"  {_PAYLOAD}\n"),
    "a list of one audience": with_claims(aud=["arco"]),
    "no groups": with_claims(groups=[]),
    "many groups": with_claims(groups=[f"g{number}" for number in range(300)]),
    "a client": with_claims(sub="client:etl"),
    "a name with a colon": with_claims(sub="user:a:b"),
    "a name beyond ASCII": with_claims(sub="user:Zoë 日本"),
    "the longest name": with_claims(sub="user:" + "x" * 255),
    "the longest life": with_claims(exp=NOW_S + YEAR_S),
    "a clock 60 s behind the issuer's": with_claims(iat=NOW_S + 60, nbf=NOW_S + 60),
    "nbf 60 s ahead": with_claims(nbf=NOW_S + 60),
    "expired for 59 s": with_claims(iat=NOW_S - DAY_S, nbf=NOW_S - DAY_S, exp=NOW_S - 59),
    "nearly a year old": with_claims(iat=NOW_S - YEAR_S + 1, nbf=NOW_S - YEAR_S + 1, exp=NOW_S + 1),
    "a tenant of one letter": with_claims(tenant_id="a"),
}

BAD_FORM = {
    "nothing": "",
    "dots alone": "..",
    "two parts": f"{_HEAD}.{_BODY}",
    "four parts": f"{GENUINE}.{_SIGNATURE}",
    "five parts, as an encrypted one": f"{GENUINE}.{_SIGNATURE}.{_SIGNATURE}",
    "a blank before": f" {GENUINE}",
    "a blank after": f"{GENUINE} ",
    "a line break after": f"{GENUINE}\n",
    "a blank inside": f"{_HEAD}. {_BODY}.{_SIGNATURE}",
    "padding in the signature": f"{GENUINE}=",
    "padding in the header": seal(f"{_HEAD}==.{_BODY}"),
    "a stray character in the header": seal(f"{_HEAD}!.{_BODY}"),
    "a stray character in the payload": seal(f"{_HEAD}.{_BODY}*"),
    "the ordinary alphabet of base 64": seal(f"{_HEAD}.{_BODY}+/"),
    "the signature spelled otherwise": _swap_last_bits(GENUINE),
    "a letter that is not ASCII": f"{_HEAD}.{_BODY}.{_SIGNATURE[:-1]}é",
    "half a surrogate": f"{_HEAD}.{_BODY}.\ud800",
    "a NUL": f"{GENUINE}\0",
    "longer than 8 KiB": with_claims(groups=["x" * 200] * 40),
    "far longer than 8 KiB": "a" * 10_000_000,
    "the JSON serialization": json.dumps(
        {"protected": _HEAD, "payload": _BODY, "signature": _SIGNATURE}
    ),
    "a URL of ours": _URL,
}

BAD_SIGNATURE = {
    "none at all": f"{_HEAD}.{_BODY}.",
    "all zeros": f"{_HEAD}.{_BODY}.{b64(bytes(32))}",
    "cut short": f"{_HEAD}.{_BODY}.{b64(bytes(16))}",
    "of another installation": token(key=b"k" * 32),
    "by an empty key": token(key=b""),
    "by the installation's key itself": token(key=INSTALLATION_KEY),
    "by a URL's signature": token(key=_URL_SIGNATURE),
    "a URL's signature": f"{_HEAD}.{_BODY}.{b64(_URL_SIGNATURE)}",
    "a URL's signature in hex": f"{_HEAD}.{_BODY}.{_URL_SIGNATURE.hex()}",
    "by the JWK as a secret": token(key=json.dumps(_JWK).encode()),
    "by the encoded key as a secret": token(key=b64(TOKEN_KEY).encode()),
    "by the key in hex": token(key=TOKEN_KEY.hex().encode()),
    "by the label": token(key=b"arco-token-1"),
    "by a public key in PEM": token(key=_public(serialization.Encoding.PEM)),
    "by a public key in DER": token(key=_public(serialization.Encoding.DER)),
    "of another payload": f"{_HEAD}.{with_claims(sub='user:root').split('.')[1]}.{_SIGNATURE}",
    "of another header": f"{with_header(kid='arco-token-1').split('.')[0]}.{_BODY}.{_SIGNATURE}",
    "SHA-512 under HS256": seal(f"{_HEAD}.{_BODY}", algorithm="sha512"),
}

BAD_HEADER = {
    "alg none": with_header(alg="none"),
    "alg none, unsigned": f"{_signing_input(alg='none')}.",
    "alg None": f"{_signing_input(alg='None')}.",
    "alg nOnE": f"{_signing_input(alg='nOnE')}.",
    "alg in lower case": with_header(alg="hs256"),
    "alg HS384": seal(_signing_input(alg="HS384"), algorithm="sha384"),
    "alg HS512": seal(_signing_input(alg="HS512"), algorithm="sha512"),
    "alg RS256, truly": _rs256(),
    "alg RS256 over an HMAC": with_header(alg="RS256"),
    "alg ES256, truly": _es256(),
    "alg dir": with_header(alg="dir", enc="A256GCM"),
    "alg empty": with_header(alg=""),
    "alg null": with_header(alg=None),
    "alg a list": with_header(alg=["HS256"]),
    "alg missing": without("alg"),
    "alg twice, the good one last": with_header_text('{"alg":"none","alg":"HS256"}'),
    "alg twice, the good one first": with_header_text('{"alg":"HS256","alg":"none"}'),
    "alg twice, once escaped": with_header_text('{"alg":"HS256","\\u0061lg":"HS256"}'),
    "ALG besides": with_header(ALG="none"),
    "crit empty": with_header(crit=[]),
    "crit of something": with_header(crit=["exp"], exp=NOW_S),
    "crit b64": seal(_signing_input(b64=False, crit=["b64"])),
    "b64 false": with_header(b64=False),
    "b64 true": with_header(b64=True),
    "jwk": with_header(jwk=_JWK),
    "jku": with_header(jku="https://example.com/keys"),
    "x5u": with_header(x5u="https://example.com/cert"),
    "x5c": with_header(x5c=["AAAA"]),
    "x5t": with_header(x5t="AAAA"),
    "cty": with_header(cty="JWT"),
    "zip": with_header(zip="DEF"),
    "kid of a file": with_header(kid="../../../dev/null"),
    "kid of a query": with_header(kid="' UNION SELECT 'key"),
    "kid unknown": with_header(kid="arco-token-2"),
    "kid empty": with_header(kid=""),
    "kid a number": with_header(kid=1),
    "kid null": with_header(kid=None),
    "typ of another kind": with_header(typ="at+jwt"),
    "typ null": with_header(typ=None),
    "a list": with_header_text("[]"),
    "a string": with_header_text('"HS256"'),
    "no JSON": with_header_text("HS256"),
    "JSON and more": with_header_text('{"alg":"HS256"}{}'),
    "a byte order mark": with_header_text('\ufeff{"alg":"HS256"}'),
    "UTF-16": sign('{"alg":"HS256"}'.encode("utf-16"), _PAYLOAD.encode()),
    "not UTF-8": sign(b'{"alg":"HS256","typ":"\xff"}', _PAYLOAD.encode()),
    "deeply nested": with_header_text("[" * 2_900),
}

_CLAIM_NAMES = tuple(CLAIMS)
_TIMES = ("iat", "nbf", "exp")

BAD_CLAIM = {
    **{f"{name} missing": without(name) for name in _CLAIM_NAMES},
    **{f"{name} null": with_claims(**{name: None}) for name in _CLAIM_NAMES},
    **{f"{name} an object": with_claims(**{name: {}}) for name in _CLAIM_NAMES},
    **{
        f"{name} twice": with_payload_text(f"{_PAYLOAD[:-1]}, {json.dumps({name: value})[1:-1]}}}")
        for name, value in CLAIMS.items()
    },
    **{f"{name} a string": with_claims(**{name: str(CLAIMS[name])}) for name in _TIMES},
    **{f"{name} a float": with_claim_text(name, f"{CLAIMS[name]}.0") for name in _TIMES},
    **{f"{name} a power": with_claim_text(name, "18e8") for name in _TIMES},
    **{f"{name} true": with_claims(**{name: True}) for name in _TIMES},
    **{f"{name} NaN": with_claim_text(name, "NaN") for name in _TIMES},
    **{f"{name} infinite": with_claim_text(name, "Infinity") for name in _TIMES},
    **{f"{name} negative": with_claims(**{name: -1}) for name in _TIMES},
    **{f"{name} of 5,000 digits": with_claim_text(name, "9" * 5_000) for name in _TIMES},
    "exp = 10^18": with_claims(exp=10**18),
    "exp = 10^18 and iat too": with_claims(exp=10**18, iat=10**18 - 1, nbf=10**18 - 1),
    "exp a second beyond the longest life": with_claims(exp=NOW_S + YEAR_S + 1),
    "exp in milliseconds": with_claims(exp=(NOW_S + DAY_S) * 1_000),
    "exp 60 s ago": with_claims(iat=NOW_S - DAY_S, nbf=NOW_S - DAY_S, exp=NOW_S - 60),
    "exp zero": with_claims(exp=0),
    "exp before nbf": with_claims(nbf=NOW_S + 30, exp=NOW_S + 20),
    "exp equal to iat": with_claims(exp=NOW_S),
    "nbf 61 s ahead": with_claims(nbf=NOW_S + 61),
    "iat 61 s ahead": with_claims(iat=NOW_S + 61, nbf=NOW_S + 61),
    "iat after nbf": with_claims(iat=NOW_S + 1),
    "all times before 1970": with_claims(iat=-2, nbf=-2, exp=-1),
    "iat zero, so that it lives too long": with_claims(iat=0, nbf=0),
    "iss with more behind": with_claims(iss="arco-local.example.com"),
    "iss with less": with_claims(iss="arco"),
    "iss in capitals": with_claims(iss="ARCO-LOCAL"),
    "iss with a blank": with_claims(iss="arco-local "),
    "iss with a NUL": with_claims(iss="arco-local\0"),
    "iss a list": with_claims(iss=["arco-local"]),
    "aud of another": with_claims(aud="unity"),
    "aud with more behind": with_claims(aud="arco-admin"),
    "aud in capitals": with_claims(aud="Arco"),
    "aud empty": with_claims(aud=""),
    "aud an empty list": with_claims(aud=[]),
    "aud a list of two": with_claims(aud=["arco", "unity"]),
    "aud a list of the same twice": with_claims(aud=["arco", "arco"]),
    "aud a list of another": with_claims(aud=["unity"]),
    "aud a list in a list": with_claims(aud=[["arco"]]),
    "sub empty": with_claims(sub=""),
    "sub a number": with_claims(sub=1),
    "sub without a kind": with_claims(sub="ana"),
    "sub of no name": with_claims(sub="user:"),
    "sub a group": with_claims(sub="group:admins"),
    "sub of another kind": with_claims(sub="service:compactor"),
    "sub in capitals": with_claims(sub="User:ana"),
    "sub with a line break": with_claims(sub="user:ana\nroot"),
    "sub with a NUL": with_claims(sub="user:ana\0"),
    "sub that turns the line": with_claims(sub="user:\u202eana"),
    "sub with half a surrogate": with_claim_text("sub", '"user:\\ud800"'),
    "sub too long": with_claims(sub="user:" + "x" * 256),
    "jti empty": with_claims(jti=""),
    "jti a number": with_claims(jti=1),
    "tenant empty": with_claims(tenant_id=""),
    "tenant of a path": with_claims(tenant_id="../acme"),
    "tenant in capitals": with_claims(tenant_id="Acme"),
    "tenant with a slash": with_claims(tenant_id="acme/workspace=eu-1"),
    "tenant a list": with_claims(tenant_id=["acme"]),
    "workspace empty": with_claims(workspace_id=""),
    "workspace of a path": with_claims(workspace_id=".."),
    "groups a string": with_claims(groups="admins"),
    "groups of numbers": with_claims(groups=[1]),
    "groups in groups": with_claims(groups=[["admins"]]),
    "groups of null": with_claims(groups=[None]),
    "a group without a name": with_claims(groups=[""]),
    "a group with a line break": with_claims(groups=["a\nb"]),
    "a group too long": with_claims(groups=["x" * 256]),
    "role besides": with_claims(role="service"),
    "scope besides": with_claims(scope="admin"),
}

BAD_PAYLOAD = {
    "empty": with_payload_text(""),
    "an empty object": with_payload_text("{}"),
    "null": with_payload_text("null"),
    "a list": with_payload_text(f"[{_PAYLOAD}]"),
    "a string": with_payload_text(json.dumps(_PAYLOAD)),
    "a number": with_payload_text("1"),
    "no JSON": with_payload_text("user:ana"),
    "JSON and more": with_payload_text(f"{_PAYLOAD}{_PAYLOAD}"),
    "a byte order mark": with_payload_text(f"\ufeff{_PAYLOAD}"),
    "UTF-16": sign(json.dumps(dict(HEADER)).encode(), _PAYLOAD.encode("utf-16")),
    "UTF-32": sign(json.dumps(dict(HEADER)).encode(), _PAYLOAD.encode("utf-32")),
    "not UTF-8": sign(json.dumps(dict(HEADER)).encode(), b"\xff" + _PAYLOAD.encode()),
    "deeply nested": with_payload_text("[" * 5_000),
    "a token": with_payload_text(GENUINE),
    "a comment": with_payload_text(f"{_PAYLOAD}//"),
    "a trailing comma": with_payload_text(f"{_PAYLOAD[:-1]},}}"),
}

BAD = {
    f"{kind}: {name}": text
    for kind, cases in {
        "form": BAD_FORM,
        "signature": BAD_SIGNATURE,
        "header": BAD_HEADER,
        "claim": BAD_CLAIM,
        "payload": BAD_PAYLOAD,
    }.items()
    for name, text in cases.items()
}

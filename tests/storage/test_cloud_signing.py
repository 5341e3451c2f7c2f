"""The clouds sign their own URLs, and each URL is shown to work, or to be right, without credentials."""

import json
import re
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.running import AZURE_ACCOUNT
from tests.stores import Bench, open_bench

KEY = "state/executions/a=b,c.parquet"
BODY = bytes(range(256))


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """The answer to a client without credentials."""
    data = b"x" if method == "PUT" else None
    try:
        with urlopen(Request(url, data, headers, method=method), timeout=10) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, b""


async def signed(bench: Bench, key: str = KEY, expires_s: int = 60) -> str:
    await bench.backend.create(Scope().prefix + key, BODY)
    return await bench.store().sign(key, expires_s)


@pytest.fixture
def s3(moto_url: str, runtime: Runtime) -> Bench:
    return open_bench(f"s3://arco/{uuid4().hex}?endpoint={moto_url}", runtime)


async def test_a_url_of_s3_downloads_the_object_and_its_ranges(s3: Bench) -> None:
    url = await signed(s3, "state/executions/a b=c%20ä#?.parquet")
    assert ask(url) == (200, BODY)
    assert ask(url, Range="bytes=10-19") == (206, BODY[10:20])
    query = parse_qs(urlsplit(url).query)
    assert query["X-Amz-Expires"] == ["60"]
    assert query["X-Amz-SignedHeaders"] == ["host"]
    assert "test-only" not in query["X-Amz-Signature"][0]


@pytest.fixture
def azure(azurite_url: str, runtime: Runtime) -> Bench:
    url = f"az://arco/{uuid4().hex}?endpoint={azurite_url}&account={AZURE_ACCOUNT}"
    return open_bench(url, runtime)


async def test_a_url_of_azure_opens_this_object_and_no_other(azure: Bench) -> None:
    url = await signed(azure)
    neighbour = await signed(azure, "state/executions/other.parquet")
    assert ask(url) == (200, BODY)
    assert ask(url, Range="bytes=10-19") == (206, BODY[10:20])
    stolen = neighbour.partition("?")[0] + "?" + url.partition("?")[2]
    later = url.replace("se=2", "se=3")
    other = re.sub(r"sig=[^&]+", "sig=" + "A" * 43 + "%3D", url)  # as long as a signature is
    for forged in (stolen, later, other, url.partition("?")[0]):
        assert forged != url
        assert ask(forged)[0] in (403, 404)


async def test_a_url_of_azure_only_reads(azure: Bench) -> None:
    url = await signed(azure)
    for method in ("PUT", "DELETE"):
        assert ask(url, method)[0] in (400, 403)
    assert ask(url) == (200, BODY)


@pytest.mark.parametrize("name", ["a b", "a%20b", "ä", "a#b", "{a}"])
async def test_a_key_whose_url_azure_would_not_honour_is_refused(azure: Bench, name: str) -> None:
    with pytest.raises(Invalid):
        await signed(azure, f"state/d/{name}.parquet")


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@pytest.fixture
def gcs(
    private_key: rsa.RSAPrivateKey,
    tmp_path: Path,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
) -> Bench:
    """A bucket of the real cloud, without any request to it: a service account signs locally."""
    pem = private_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "private_key": pem.decode(),
        "private_key_id": "1",
        "client_email": "arco@example.iam.gserviceaccount.com",
        "token_uri": "http://127.0.0.1:1/token",
    }
    path = tmp_path / "service-account.json"
    path.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return open_bench("gs://bucket/prefix", runtime)


def string_to_sign(url: str) -> bytes:
    """What Google verifies, put together from the URL alone (its V4 signing process)."""
    parts = urlsplit(url)
    query = parts.query.rpartition("&X-Goog-Signature=")[0]
    fields = parse_qs(query)
    scope = fields["X-Goog-Credential"][0].partition("/")[2]
    request = f"GET\n{parts.path}\n{query}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    lines = [
        "GOOG4-RSA-SHA256",
        fields["X-Goog-Date"][0],
        scope,
        sha256(request.encode()).hexdigest(),
    ]
    return "\n".join(lines).encode()


def is_genuine(url: str, key: rsa.RSAPrivateKey) -> bool:
    signature = bytes.fromhex(parse_qs(urlsplit(url).query)["X-Goog-Signature"][0])
    try:
        key.public_key().verify(signature, string_to_sign(url), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


async def test_a_url_of_gcs_is_signed_by_the_service_account_for_this_path_and_time(
    gcs: Bench, private_key: rsa.RSAPrivateKey
) -> None:
    url = await gcs.store().sign("state/d/x.parquet", 60)
    assert urlsplit(url).netloc == "storage.googleapis.com"
    assert urlsplit(url).path == f"/bucket/prefix/{Scope().prefix}state/d/x.parquet"
    assert parse_qs(urlsplit(url).query)["X-Goog-Expires"] == ["60"]
    assert is_genuine(url, private_key)
    assert not is_genuine(url.replace("x.parquet", "y.parquet"), private_key)
    assert not is_genuine(url.replace("Expires=60", "Expires=61"), private_key)


@pytest.mark.parametrize("name", ["a b", "ä", "a=b,c+d", "日本"])
async def test_odd_names_are_signed_as_the_url_spells_them(
    gcs: Bench, private_key: rsa.RSAPrivateKey, name: str
) -> None:
    url = await gcs.store().sign(f"state/d/{name}.parquet", 60)
    assert is_genuine(url, private_key)
    assert unquote(urlsplit(url).path).endswith(f"/{name}.parquet")


@pytest.mark.parametrize("name", ["a%2e", "a?b", "a#b"])
async def test_a_key_that_gcs_would_sign_for_another_object_is_refused(
    gcs: Bench, name: str
) -> None:
    with pytest.raises(Invalid):
        await gcs.store().sign(f"state/d/{name}.parquet", 60)


async def test_a_signed_url_names_no_secret(s3: Bench, azure: Bench, gcs: Bench) -> None:
    secrets = ("Eby8vdM02xNOcq", "PRIVATE", "test-only%2F")
    for bench in (s3, azure, gcs):
        store = Store(bench.backend, bench.runtime, scope=Scope(), role=Role.API)
        url = await store.sign("state/d/x.parquet", 60)
        assert not [
            secret for secret in secrets if secret in url.replace("Credential=test-only", "")
        ]

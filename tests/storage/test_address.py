import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.storage.address import Address, parse_address
from arco.storage.open import open_backend

DOCUMENTED = {
    "memory://": Address("memory", ""),
    "file:///var/arco": Address("file", "/var/arco"),
    "file://localhost/var/arco": Address("file", "/var/arco"),
    "file:///with%20space": Address("file", "/with space"),
    "/var/arco": Address("file", "/var/arco"),
    "s3://bucket": Address("s3", "bucket"),
    "s3://bucket/": Address("s3", "bucket"),
    "s3://bucket/some/prefix": Address("s3", "bucket", "some/prefix/"),
    "s3://bucket/some/prefix/": Address("s3", "bucket", "some/prefix/"),
    "s3://b/p?endpoint=http://127.0.0.1:9000&region=eu-1&path_style=true": Address(
        "s3",
        "b",
        "p/",
        {"endpoint": "http://127.0.0.1:9000", "region": "eu-1", "path_style": "true"},
    ),
    "gs://bucket/prefix": Address("gs", "bucket", "prefix/"),
    "gs://b?endpoint=http://127.0.0.1:1": Address(
        "gs", "b", "", {"endpoint": "http://127.0.0.1:1"}
    ),
    "az://container/prefix?account=me": Address("az", "container", "prefix/", {"account": "me"}),
}


@pytest.mark.parametrize(("text", "address"), DOCUMENTED.items())
def test_every_documented_form_is_understood(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_a_relative_path_is_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("store", "./store"):
        assert parse_address(text) == Address("file", str(tmp_path / "store"))


@pytest.mark.parametrize("text", DOCUMENTED)
def test_an_address_reads_as_it_was_written_but_for_its_options(text: str) -> None:
    address = parse_address(text)
    reparsed = parse_address(str(address))
    assert (reparsed.scheme, reparsed.location, reparsed.prefix) == (
        address.scheme,
        address.location,
        address.prefix,
    )
    assert "?" not in str(address)


@pytest.mark.parametrize(
    "text",
    [
        "s3://b?secret=hunter2",
        "s3://b?AWS_SECRET_ACCESS_KEY=hunter2",
        "s3://b?access_key_id=hunter2",
        "s3://b?session_token=hunter2",
        "az://c?sas_token=hunter2",
        "az://c?account_key=hunter2",
        "gs://b?credentials=hunter2",
        "s3://user:hunter2@b",
        "s3://hunter2@b",
        "s3://b?endpoint=https://user:hunter2@host",
        "s3://b?endpoint=https://hunter2@host",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_address(text)
    assert "hunter2" not in str(refused.value)
    assert re.search("a URL has no secrets|user and password|user, password", str(refused.value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a store is a directory or a URL"),
        ("a\0b", "a store is a directory or a URL"),
        ("ftp://host/x", "unknown kind of store 'ftp'"),
        ("://x", "unknown kind of store"),
        ("S4://b", "unknown kind of store"),
        ("s3://", "needs the name of a bucket"),
        ("az:///prefix", "needs the name of a bucket"),
        ("s3://b:9000/p", "port"),
        ("s3://b/p#frag", "fragment"),
        (
            "s3://b/p?unknown=1",
            "unknown option 'unknown' of s3:// (known: endpoint, path_style, region)",
        ),
        ("gs://b?region=x", "unknown option 'region'"),
        ("memory://?x=1", "known: none"),
        ("file:///d?x=1", "known: none"),
        ("file://host/d", "absolute path"),
        ("file://", "needs a directory"),
        ("file:///a%00b", "needs a directory"),
        ("s3://b/../x", "'..'"),
        ("s3://b/a//x", "empty part"),
        ("s3://b/%2e%2e/x", "'..'"),
        ("s3://b/a%00", "control characters"),
        ("s3://b/a%5c..", "backslash"),
        ("s3://[::1", "cannot be parsed"),
        ("s3://b?endpoint=ftp://host", "an endpoint is a URL"),
        ("s3://b?endpoint=host:9000", "an endpoint is a URL"),
        ("s3://b?endpoint=", "an endpoint is a URL"),
        ("s3://b?endpoint=http://[", "an endpoint is a URL"),
    ],
)
def test_a_bad_address_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_address(text)
    assert reason in str(refused.value)


SCHEMES = st.sampled_from(["s3", "gs", "az", "file", "memory", "S3", "", "http", "é"])


@given(st.text() | st.builds("{}://{}".format, SCHEMES, st.text()))
@example("s3://\ud800")
@example("s3://b/\ud800")
@example("file:///\ud800")
@example("s3://[]/x")
@example("s3://b:99999999999/x")
@example("s3://b:x/x")
@example("s3://ba\u2100d/x")
@example("s3://b?" + "a&" * 5_000)
@example("s3://b/" + "x/" * 5_000)
@example("s3://b?endpoint=http://b:x")
def test_no_text_makes_the_parser_raise_anything_but_invalid(text: str) -> None:
    try:
        address = parse_address(text)
    except Invalid as refused:
        assert len(str(refused)) < 1_000
    else:
        assert address.scheme in ("s3", "gs", "az", "file", "memory")
        assert address.prefix == "" or address.prefix.endswith("/")


def test_a_client_that_cannot_be_set_up_says_so_without_its_settings(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "hunter2 is not base64")
    for text in ("az://container/x", "az://container/x?account=me"):
        with pytest.raises(Invalid) as refused:
            open_backend(parse_address(text), runtime)
        assert "hunter2" not in str(refused.value)

"""Clouds and memory, through obstore; nothing else imports it.

Its retries are off: they repeat a conditional write that was applied, report our own object as a conflict,
and use their own clock. `RetryingBackend` retries instead, and finds out who won. Its messages are not
passed on, since they can hold signed queries.
"""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import obstore
from obstore import exceptions as failures
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from arco.core.errors import AlreadyExists, Denied, Invalid, NotFound, Unavailable, Unsupported
from arco.core.runtime import Runtime
from arco.storage.address import Address
from arco.storage.backend import Meta
from arco.storage.signing import UrlSigner

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config

ObjectStore = AzureStore | GCSStore | MemoryStore | S3Store

_TIMEOUT_S = 120  # a last resort: `Store` gives up on an attempt long before
_CONNECT_S = 5
_STATUS = re.compile(r"\b([45]\d\d) [A-Z][A-Za-z ]{2,40}")
# Without configuration the client asks the metadata service of a machine in the cloud. Only the host is
# matched: the URL of the object is in the message too.
_NO_CREDENTIALS = re.compile(r"https?://(169\.254\.169\.254|metadata\.google\.internal)[:/]")
# obstore signs these for GCS as they are, and the URL would open another object.
_NOT_SIGNED_BY_GCS = re.compile(r"[%?#]")
# For Azure it signs the escaped path, where Azure verifies the plain one, and the URL would open nothing.
_NOT_SIGNED_BY_AZURE = re.compile(r"""[^!$&'()*+,\-./:;=@\[\]^_|~0-9A-Za-z]""")
_UNCONDITIONAL = "the store does not support conditional writes (put-if-absent); choose another"
_ALREADY_EXISTS = (failures.AlreadyExistsError, failures.PreconditionError)
_FORBIDDEN = (failures.PermissionDeniedError, failures.UnauthenticatedError, PermissionError)


class CloudBackend:
    """Objects below `root` in one bucket, container or memory."""

    def __init__(
        self,
        store: ObjectStore,
        runtime: Runtime,
        *,
        root: str = "",
        signer: UrlSigner | None = None,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._root = root
        self._signer = signer

    async def get(self, key: str) -> bytes:
        try:
            result = await obstore.get_async(self._store, self._root + key)
            return bytes(await result.bytes_async())
        except Exception as problem:
            _translate(problem, key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            content = await obstore.get_range_async(
                self._store, self._root + key, start=start, length=length
            )
            return bytes(content)
        except failures.BaseError as problem:
            # Stores answer a range behind the end in different ways; the size settles it.
            if start >= (await self.head(key)).size_bytes:
                return b""
            _translate(problem, key)
        except Exception as problem:
            _translate(problem, key)

    async def head(self, key: str) -> Meta:
        try:
            meta = await obstore.head_async(self._store, self._root + key)
        except Exception as problem:
            _translate(problem, key)
        return Meta(key, meta["size"], int(meta["last_modified"].timestamp() * 1000))

    async def create(self, key: str, body: bytes) -> None:
        try:
            await obstore.put_async(
                self._store, self._root + key, body, mode="create", use_multipart=False
            )
        except Exception as problem:
            _translate(problem, key)

    async def put(self, key: str, body: bytes) -> None:
        try:
            await obstore.put_async(self._store, self._root + key, body, use_multipart=False)
        except Exception as problem:
            _translate(problem, key)

    async def delete(self, key: str) -> None:
        try:
            await obstore.delete_async(self._store, self._root + key)
        except FileNotFoundError:
            return
        except Exception as problem:
            _translate(problem, key)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        offset = self._root + after if after else None
        pages = obstore.list(self._store, prefix=self._root + prefix, offset=offset)
        try:
            async for page in pages:
                for meta in page:
                    key = meta["path"].removeprefix(self._root)
                    if after and key.encode() <= after.encode():
                        continue  # not every server knows how to begin behind a key
                    yield Meta(key, meta["size"], int(meta["last_modified"].timestamp() * 1000))
        except Exception as problem:
            _translate(problem, prefix)

    async def settle(self, key: str) -> None:
        """Nothing to do: what a cloud store returns is durable."""

    async def sign(self, key: str, expires_s: int) -> str:
        if self._signer is not None:
            return self._signer.sign(key, self._runtime.clock.now_ms() // 1000 + expires_s)
        if isinstance(self._store, MemoryStore):
            raise Invalid("a store in memory has no address to sign URLs for; start a server")
        if isinstance(self._store, GCSStore) and _NOT_SIGNED_BY_GCS.search(self._root + key):
            raise Invalid(f"a key with '%', '?' or '#' cannot be signed on GCS: {key}")
        if isinstance(self._store, AzureStore) and _NOT_SIGNED_BY_AZURE.search(self._root + key):
            raise Invalid(f"a key that a URL has to escape cannot be signed on Azure: {key}")
        try:
            return await obstore.sign_async(
                self._store, "GET", self._root + key, timedelta(seconds=expires_s)
            )
        except Exception as problem:
            _translate(problem, key)


def connect(address: Address) -> ObjectStore:
    """The obstore client for an address; credentials come from each cloud's own variables."""
    try:
        return _client(address)
    except (failures.BaseError, ValueError) as problem:
        # Its message may hold a setting, so it is not passed on.
        raise Invalid(
            f"the client for {address} could not be set up: an option of the URL or one of the "
            "cloud's own variables is missing or wrong"
        ) from problem


def _client(address: Address) -> ObjectStore:
    endpoint = address.options.get("endpoint", "")
    emulated = endpoint.startswith("http://")
    client: ClientConfig = {
        "timeout": timedelta(seconds=_TIMEOUT_S),
        "connect_timeout": timedelta(seconds=_CONNECT_S),
        "allow_http": emulated,
    }
    retry: RetryConfig = {"max_retries": 0}
    if address.scheme == "memory":
        return MemoryStore()
    if address.scheme == "s3":
        config = _s3_config(address.options)
        return S3Store(address.location, config=config, client_options=client, retry_config=retry)
    if address.scheme == "gs":
        gcs = _gcs_config(endpoint, emulated=emulated)
        return GCSStore(address.location, config=gcs, client_options=client, retry_config=retry)
    azure = _azure_config(address.options)
    return AzureStore(address.location, config=azure, client_options=client, retry_config=retry)


def _s3_config(options: dict[str, str]) -> "S3Config":
    config: S3Config = {
        "virtual_hosted_style_request": options.get("path_style") == "false",
        # A bulk delete's answer lists keys, and a key with the name of an error passes for one.
        "disable_bulk_delete": True,
    }
    if "endpoint" in options:
        config["endpoint"] = options["endpoint"]
    if "region" in options:
        config["region"] = options["region"]
    return config


def _gcs_config(endpoint: str, *, emulated: bool) -> "GCSConfig":
    if not endpoint:
        return {}
    # An emulator has no identities; a token of any kind keeps the client from asking for a real one.
    return {"base_url": endpoint, "bearer_token": "none"} if emulated else {"base_url": endpoint}


def _azure_config(options: dict[str, str]) -> "AzureConfig":
    config: AzureConfig = {}
    if "account" in options:
        config["account_name"] = options["account"]
    if "endpoint" in options:
        config["endpoint"] = options["endpoint"]
    return config


def _translate(problem: Exception, key: str) -> NoReturn:
    """Raise the error that an answer means; if that is not clear, a write may have been applied."""
    if isinstance(problem, FileNotFoundError):
        raise NotFound(f"the object {key} does not exist") from problem
    if isinstance(problem, _ALREADY_EXISTS):
        raise AlreadyExists(f"{key} exists") from problem
    if isinstance(problem, _FORBIDDEN):
        raise Denied(f"the store does not allow this on {key}") from problem
    if isinstance(problem, (failures.NotSupportedError, NotImplementedError)):
        raise Unsupported(_UNCONDITIONAL) from problem
    if isinstance(problem, failures.InvalidPathError):
        raise Invalid(f"the store cannot hold a key like {key}") from problem
    text = str(problem).partition("Debug source")[0]
    if _NO_CREDENTIALS.search(text):
        # The service may also be down for a moment, so this is not a denial.
        raise Unavailable(
            "no credentials for the store were found: set the cloud's own variables"
        ) from problem
    status = _STATUS.search(text)
    if status and status[1] == "501":
        raise Unsupported(_UNCONDITIONAL) from problem
    answer = f"answered {status[0]}" if status else "did not answer properly"
    raise Unavailable(f"the store {answer} on {key}") from problem

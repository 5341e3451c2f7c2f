"""How each client library is pointed at a running server."""

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from obstore.store import AzureStore, GCSStore, S3Store

from tests.faults.running import AZURE_ACCOUNT, RunningServer

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig
    from types_boto3_s3.client import S3Client

# Any base64 will do: the server does not check what is signed with it.
_AZURE_KEY = "c2VjcmV0"

# Google's client would ask for the bucket's own metadata on a thread that nobody ends. After a fault it
# asks again for two minutes, past the end of the test, and takes its pauses from the global `random`:
# Hypothesis, drawing for some later test, would see that move and blame the test's strategies.
os.environ["DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"] = "true"


def boto3_client(server: RunningServer) -> "S3Client":
    """An S3 client that tries once, so that a fault is seen and not papered over."""
    return boto3.client(
        "s3",
        endpoint_url=server.s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def gcs_client(server: RunningServer) -> storage.Client:
    return storage.Client(
        project="project",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": server.gcs_endpoint},
    )


def s3_store(server: RunningServer, bucket: str, *, max_retries: int = 0) -> S3Store:
    return S3Store(
        bucket,
        config={
            "endpoint": server.s3_endpoint,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "virtual_hosted_style_request": False,
        },
        client_options=_client_options(),
        retry_config=_retries(max_retries),
    )


def gcs_store(server: RunningServer, bucket: str, *, max_retries: int = 0) -> GCSStore:
    # `skip_signature` would not do: obstore heeds it in reads but fetches a token for writes.
    return GCSStore(
        bucket,
        config={"base_url": server.gcs_endpoint, "bearer_token": "token"},
        client_options=_client_options(),
        retry_config=_retries(max_retries),
    )


def azure_store(server: RunningServer, container: str, *, max_retries: int = 0) -> AzureStore:
    # An endpoint rather than `use_emulator`, whose address comes only from the environment.
    return AzureStore(
        container,
        config={
            "endpoint": server.azure_endpoint,
            "account_name": AZURE_ACCOUNT,
            "account_key": _AZURE_KEY,
        },
        client_options=_client_options(),
        retry_config=_retries(max_retries),
    )


def _client_options() -> "ClientConfig":
    return {"allow_http": True, "timeout": timedelta(seconds=10)}


def _retries(max_retries: int) -> "RetryConfig":
    return {
        "max_retries": max_retries,
        "retry_timeout": timedelta(seconds=10),
        "backoff": {
            "init_backoff": timedelta(milliseconds=1),
            "max_backoff": timedelta(milliseconds=10),
            "base": 2,
        },
    }

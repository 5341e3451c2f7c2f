"""The HTTP that clients send: framing, reuse of connections, and requests that are none."""

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.faults.running import RunningServer
from tests.faults.wire import BUCKET, send


def talk(server: RunningServer, *pieces: bytes) -> bytes:
    """Send raw bytes, wait for what comes after each piece, and return all of it."""
    address = urlsplit(server.endpoint)
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
        for piece in pieces:
            connection.sendall(piece)
            received += connection.recv(65536)
    return received


def test_a_connection_serves_many_requests(server: RunningServer) -> None:
    connection = HTTPConnection(urlsplit(server.endpoint).netloc, timeout=5)
    for number in range(3):
        connection.request("PUT", f"/{BUCKET}/{number}", b"x" * number)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
    connection.close()
    assert list(server.objects(BUCKET)) == ["0", "1", "2"]


def test_a_chunked_body_is_put_together(server: RunningServer) -> None:
    connection = HTTPConnection(urlsplit(server.endpoint).netloc, timeout=5)
    connection.request("PUT", f"/{BUCKET}/k", iter([b"one ", b"two ", b"three"]))
    assert connection.getresponse().status == 200
    connection.close()
    assert server.objects(BUCKET)["k"].body == b"one two three"


def test_a_client_that_expects_100_continue_gets_it(server: RunningServer) -> None:
    head = b"PUT /bucket/k HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    received = talk(server, head, b"hi")
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert server.objects(BUCKET)["k"].body == b"hi"


def test_the_frames_of_a_signed_stream_are_taken_off(server: RunningServer) -> None:
    framed = b"4;chunk-signature=aa\r\nabcd\r\n3;chunk-signature=bb\r\nefg\r\n0\r\nx-crc:1\r\n\r\n"
    headers = {
        "Content-Encoding": "aws-chunked",
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    }
    assert send(server, "PUT", f"/{BUCKET}/k", framed, headers).status == 200
    assert server.objects(BUCKET)["k"].body == b"abcdefg"


def test_a_head_describes_a_body_that_it_does_not_bring(server: RunningServer) -> None:
    send(server, "PUT", f"/{BUCKET}/k", b"12345")
    for path, described in [(b"k", b"Content-Length: 5\r\n"), (b"absent", b"404 Not Found\r\n")]:
        received = talk(server, b"HEAD /bucket/%s HTTP/1.1\r\n\r\n" % path)
        assert described in received
        assert received.endswith(b"\r\n\r\n")


def test_what_is_not_http_is_a_bad_request(server: RunningServer) -> None:
    assert talk(server, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_request_that_lacks_what_it_needs_is_a_bad_request(server: RunningServer) -> None:
    assert send(server, "GET", f"/{BUCKET}?list-type=2&max-keys=many").status == 400
    assert send(server, "PUT", f"/{BUCKET}/k?uploadId=1", b"part").status == 400
    assert send(server, "POST", f"/{BUCKET}?delete", b"<not xml").status == 400
    assert send(server, "GET", f"/{BUCKET}/k", headers={"Range": "bytes=x"}).status == 400


def test_a_request_cut_short_is_not_applied(server: RunningServer) -> None:
    address = urlsplit(server.endpoint)
    with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
        connection.sendall(b"PUT /bucket/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert server.objects(BUCKET) == {}

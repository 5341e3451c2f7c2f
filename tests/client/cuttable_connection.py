"""A line to a real server that can be cut, before a request arrives or after it was answered."""

import threading

import httpx2


class CuttableConnection(httpx2.BaseTransport):
    """The network between a client and its server."""

    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()
        self.is_open = threading.Event()
        self.is_open.set()
        self.lose_answers = 0  # of the next requests, which arrive all the same
        self.answers: list[httpx2.Response] = []  # given instead of asking the server
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if not self.is_open.is_set():
            raise httpx2.ConnectError("the line is cut")
        if self.answers:
            return self.answers.pop(0)
        answer = self._inner.handle_request(request)
        if self.lose_answers:
            self.lose_answers -= 1
            answer.read()
            answer.close()
            raise httpx2.ReadError("the answer was lost")
        return answer

    def close(self) -> None:
        self._inner.close()

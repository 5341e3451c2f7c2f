"""The pages that explain the API: its OpenAPI document, and a page that shows it without the internet."""

from importlib.resources import files

from arco.api.query_params import Query
from arco.api.route import JSON, Call, Reply
from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex

# Nothing from elsewhere, nothing inline, nobody may frame it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KINDS = {
    "docs": ("docs.html", "text/html; charset=utf-8"),
    "docs.css": ("docs.css", "text/css; charset=utf-8"),
    "docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}


class Pages:
    """Fixed answers; the document is set once all routes are known."""

    def __init__(self) -> None:
        self._document = b""
        folder = files("arco.api") / "static"
        self._files = {
            name: ((folder / file).read_bytes(), kind) for name, (file, kind) in _KINDS.items()
        }

    def set_document(self, document: bytes) -> None:
        """The document that describes the routes, these among them."""
        self._document = document

    async def openapi(self, _call: Call[Query, None]) -> Reply:
        """The OpenAPI document of this API."""
        if not self._document:
            raise Invalid("the document was never set")
        return Reply(200, self._document, JSON, headers={"ETag": _tag(self._document)})

    async def docs(self, call: Call[Query, None]) -> Reply:
        """A page to read about the API and to try it."""
        body, kind = self._files[call.path.rpartition(b"/")[2].decode()]
        headers = {
            "ETag": _tag(body),
            "Content-Security-Policy": POLICY,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        return Reply(200, body, kind, headers=headers)


def _tag(body: bytes) -> str:
    return f'"{sha256_hex(body)[:32]}"'

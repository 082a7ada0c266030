# SPDX-License-Identifier: Apache-2.0
"""The files of the web page. Browsers load nothing from elsewhere and run no other code."""

import gzip
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import falcon

from tonnage.api.http.annotations import PublicResource, Route
from tonnage.api.http.http_request import Request

#: The path of the page.
PATH = "/page"

_INDEX = "index.html"

#: The text in the page that stands for the names of the enabled extensions.
_EXTENSIONS = b"{{extensions}}"

_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Browsers ask each time whether a file has changed, so files of two releases do not mix.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class _File:
    media_type: str
    content: bytes
    compressed: bytes
    tag: falcon.ETag

    @classmethod
    def of(cls, name: str, content: bytes) -> "_File":
        tag = falcon.ETag(hashlib.blake2b(content, digest_size=16).hexdigest())
        return cls(_MEDIA_TYPES[name.rpartition(".")[2]], content, gzip.compress(content, mtime=0), tag)


class StaticFiles:
    """``GET /page/`` and ``GET /page/{name}``."""

    def __init__(self, enabled_extensions: Sequence[str]) -> None:
        folder = resources.files("tonnage.extensions.page") / "static"
        contents = {
            file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES
        }
        contents[_INDEX] = _with_extensions(contents[_INDEX], enabled_extensions)
        self._files = {name: _File.of(name, content) for name, content in contents.items()}

    def on_get(self, req: Request, resp: falcon.Response, name: str = _INDEX) -> None:
        """Return a file. The path without the final slash is redirected, because the links of the page are relative."""
        if req.path == PATH and not req.env["PATH_INFO"].endswith("/"):
            raise falcon.HTTPFound(f"{req.relative_uri.partition('?')[0]}/")
        file = self._files.get(name)
        if file is None:
            raise falcon.HTTPRouteNotFound
        resp.set_headers(_HEADERS)
        resp.etag = file.tag
        if req.if_none_match and file.tag in req.if_none_match:
            resp.status = falcon.HTTP_304
            return
        resp.content_type = file.media_type
        if "gzip" in (req.get_header("Accept-Encoding") or ""):
            resp.set_header("Content-Encoding", "gzip")
            resp.data = file.compressed
        else:
            resp.data = file.content

    # The framework sends no body to a HEAD.
    on_head = on_get


def _with_extensions(index: bytes, names: Sequence[str]) -> bytes:
    """Return the page with the names of the enabled extensions, which it reads before it shows its links."""
    return index.replace(_EXTENSIONS, html.escape(" ".join(names)).encode())


class PublicStaticFiles(StaticFiles, PublicResource):
    """The same without authentication, for strategies in which a browser cannot authenticate by itself."""


def routes(auth_strategy: str, enabled_extensions: Sequence[str]) -> list[Route]:
    """Return the paths of the files. The page does not offer the views of extensions that are not enabled.

    With ``keystone`` the page asks for a token, so its files are public. With ``http_basic`` the browser asks for name
    and password, with ``noauth`` the files are for requests to this machine.
    """
    files = (PublicStaticFiles if auth_strategy == "keystone" else StaticFiles)(enabled_extensions)
    return [(PATH, files, None), (f"{PATH}/{{name}}", files, None)]

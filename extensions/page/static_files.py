# SPDX-License-Identifier: Apache-2.0
"""The files of the web page. Browsers load nothing from elsewhere and run no other code."""

import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources

import falcon

from tonnage.api.http.annotations import PublicResource
from tonnage.api.http.http_request import Request

#: The path of the page.
PATH = "/page"

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

    def __init__(self) -> None:
        folder = resources.files("tonnage.extensions.page") / "static"
        self._files = {
            file.name: _File.of(file.name, file.read_bytes())
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in _MEDIA_TYPES
        }

    def on_get(self, req: Request, resp: falcon.Response, name: str = "index.html") -> None:
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


class PublicStaticFiles(StaticFiles, PublicResource):
    """The same without authentication, for strategies in which a browser cannot authenticate by itself."""


def routes(auth_strategy: str) -> list[tuple[str, StaticFiles]]:
    """Return the paths of the files.

    With ``keystone`` the page asks for a token, so its files are public. With ``http_basic`` the browser asks for name
    and password, with ``noauth`` the files are for requests to this machine.
    """
    files = PublicStaticFiles() if auth_strategy == "keystone" else StaticFiles()
    return [(PATH, files), (f"{PATH}/{{name}}", files)]

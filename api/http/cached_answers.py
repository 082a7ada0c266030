# SPDX-License-Identifier: Apache-2.0
"""Responses that browsers cache, with an entity tag: 304 answers a request with the tag of an unchanged response."""

import datetime
import hashlib

import falcon
import msgspec

from tonnage.api.http.http_request import Request


def send(req: Request, resp: falcon.Response, body: msgspec.Struct) -> None:
    """Write a body with its entity tag, or 304 if the client has it."""
    data = msgspec.json.encode(body)
    tag = falcon.ETag(hashlib.blake2b(data, digest_size=16).hexdigest())
    resp.etag = tag
    # A browser asks again each time, and nobody else may keep the figures.
    resp.set_header("Cache-Control", "private, no-cache")
    if req.if_none_match and tag in req.if_none_match:
        resp.status = falcon.HTTP_304
        return
    resp.content_type = falcon.MEDIA_JSON
    resp.data = data


def text_of_time(moment: datetime.datetime | None) -> str | None:
    """Return a time in UTC as text, in seconds."""
    return None if moment is None else moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"

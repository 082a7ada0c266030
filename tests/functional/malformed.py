# SPDX-License-Identifier: Apache-2.0
"""Random malformed HTTP requests: wrong bodies, headers, sizes and encodings."""

import contextlib
import gzip
import http.client
import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib import parse

_BODIES = [
    {"volume": {"size": 1, "name": "n", "metadata": {"a": "b"}, "volume_type": None}},
    {"volumes": [{"size": 1, "scheduler_hints": {"different_host": [0]}}]},
    {"os-extend": {"new_size": 2}},
    {"os-migrate_volume": {"host": "box@thin#thin", "lock_volume": True}},
    {"volume_type": {"name": "t", "extra_specs": {"provisioning:type": "thin"}}},
    {"addProjectAccess": {"project": "p"}},
    {"metadata": {"k": "v"}},
    {"qos_specs": {"name": "q", "consumer": "both", "maxIOPS": "1"}},
    {"quota_set": {"volumes": 7, "gigabytes": 70}},
    {"host": "box@nowhere", "binary": "tonnage-agent", "disabled_reason": "r"},
    {"requests": [{"volume": {"size": 1}}], "changes": {"ratios": {"a": "auto"}}},
]
_PATHS = [
    "volumes",
    "volumes/detail",
    "volumes/summary",
    "volumes/11111111-2222-4333-8444-555555555555/action",
    "volumes/11111111-2222-4333-8444-555555555555/metadata/k",
    "manageable_volumes",
    "types",
    "types/x/action",
    "types/x/extra_specs/k",
    "qos-specs",
    "scheduler-stats/get_pools",
    "scheduler-stats/what-if",
    "os-services/disable",
    "os-quota-sets/demo",
    "messages",
]
_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"]
_MEDIA_TYPES = [b"application/json"] * 6 + [b"text/plain", b"", b"\xff/\xfe", b"a" * 3000]
_VERSIONS = [b"volume 3.71", b"volume 9", b"volume", b"\xc3\xa4", b"volume 3." + b"7" * 500, b"latest"]
_HEADERS = ["Idempotency-Key", "X-Auth-Token", "X-Project-Id", "Content-Encoding", "Accept", "Range"]
_IN_PATHS = ["%00", "%ff", "%ed%a0%80", "/../", "//", "%2e%2e", "{", "a" * 3000]
_PROJECTS = ["", "demo/", "%20/", "p" * 300 + "/"]
_KEYS = [
    "limit",
    "marker",
    "sort",
    "sort_key",
    "offset",
    "all_tenants",
    "name~",
    "metadata",
    "host",
    "detail",
    "\u00e4",
]
_WORDS = ["-1", "9" * 40, "\0", "\udcff", "name:up", "{'a': 'b'}", "{" * 200, "", "x" * 2000, "'; DROP"]
_VALUES: list[object] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**200,
    1e308,
    "",
    "\u0000",
    "\ud800",
    "a" * 5000,
    [],
    {},
    [[]],
]


@dataclass(frozen=True, slots=True)
class Malformed:
    """One request. ``length``, if given, is a wrong Content-Length."""

    method: str
    target: str
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    body: bytes = b""
    length: int | None = None
    chunked: bool = False


def draw(chance: random.Random) -> Malformed:
    """Return a random request."""
    method = chance.choice(_METHODS if chance.random() < 0.2 else ["GET", "POST", "POST", "PUT", "DELETE"])
    body = chance.choice(_SPOILT)(chance) if method in ("POST", "PUT", "PATCH") or chance.random() < 0.1 else b""
    headers = [("Content-Type", chance.choice(_MEDIA_TYPES))]
    if chance.random() < 0.3:
        headers.append(("OpenStack-API-Version", chance.choice(_VERSIONS)))
    if chance.random() < 0.2:
        value = chance.choice([b"", b"gzip", bytes(chance.choices(range(33, 255), k=40)), b"b" * 4000])
        headers.append((chance.choice(_HEADERS), value))
    odd_length = chance.choice([None] * 12 + [0, 1, len(body) + 50, -1])
    return Malformed(method, _target(chance), headers, body, odd_length, chunked=chance.random() < 0.1)


def send(host: str, port: int, request: Malformed, seconds: float = 20.0) -> tuple[int, bytes] | None:
    """Send a request, and return the status and the body, or None if the connection failed."""
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    with contextlib.closing(connection):
        try:
            connection.putrequest(request.method, request.target, skip_accept_encoding=True)
            for name, value in request.headers:
                connection.putheader(name, value)
            if request.chunked:
                connection.putheader("Transfer-Encoding", "chunked")
                connection.endheaders([request.body] if request.body else [], encode_chunked=True)
            else:
                length = len(request.body) if request.length is None else request.length
                connection.putheader("Content-Length", str(length))
                connection.endheaders(request.body)
                if connection.sock is not None and length > len(request.body):
                    # The server gets no more bytes of a body that is shorter than announced.
                    connection.sock.shutdown(socket.SHUT_WR)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, OSError):
            return None


def _target(chance: random.Random) -> str:
    path, query = chance.choice(_PATHS), ""
    if chance.random() < 0.15:
        spot = chance.randrange(len(path))
        path = path[:spot] + chance.choice(_IN_PATHS) + path[spot:]
    if chance.random() < 0.4:
        pairs = [(chance.choice(_KEYS), chance.choice(_WORDS)) for _ in range(chance.randrange(1, 4))]
        query = "?" + parse.urlencode(pairs, errors="surrogateescape")
    return f"/v3/{chance.choice(_PROJECTS)}{path}{query}"


def _changed(chance: random.Random) -> bytes:
    """Return a body with one value replaced."""
    body = json.loads(json.dumps(chance.choice(_BODIES)))
    inner = body
    while True:
        key = chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        if isinstance(inner[key], (dict, list)) and inner[key] and chance.random() < 0.7:
            inner = inner[key]
            continue
        inner[key] = chance.choice(_VALUES)
        return json.dumps(body).encode()


def _mutated(chance: random.Random) -> bytes:
    """Return a body with some bytes replaced."""
    raw = bytearray(json.dumps(chance.choice(_BODIES)).encode())
    for _ in range(chance.randrange(1, 6)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


_SPOILT: list[Callable[[random.Random], bytes]] = [
    _changed,
    _changed,
    _mutated,
    lambda chance: json.dumps(chance.choice(_BODIES)).encode()[: chance.randrange(40)],
    lambda chance: json.dumps(chance.choice(_BODIES)).encode(chance.choice(["utf-16", "utf-32", "utf-8-sig"])),
    lambda chance: gzip.compress(json.dumps(chance.choice(_BODIES)).encode()),
    lambda chance: chance.choice([b"[", b'{"volume":']) * chance.choice([10, 50000]),
    lambda chance: chance.randbytes(chance.randrange(200)),
    lambda chance: b'{"volume": {"name": "' + b"x" * chance.choice([300, 114_000, 200_000]) + b'"}}',
    lambda chance: b'{"volume": {"size": 1' + b"0" * chance.choice([12, 5000]) + b"}}",
    lambda chance: b'{"metadata": {' + b", ".join(b'"%d": "v"' % number for number in range(3000)) + b"}}",
]

# SPDX-License-Identifier: Apache-2.0
"""Names of backends, ``host@backend``, and of pools, ``host@backend#pool``."""

import hashlib


def pool_name(backend: str, pool: str) -> str:
    """Return the full name of a pool, ``host@backend#pool``."""
    return f"{backend}#{pool}"


def stable_hash(text: str) -> int:
    """Return a 64-bit hash of the text that is the same in every process, unlike ``hash()``."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def backend_of(name: str) -> str:
    """Return the backend of a full pool name."""
    return name.rpartition("#")[0]


def short_name(name: str) -> str:
    """Return the part of a full pool name that is the name within the backend."""
    return name.rpartition("#")[2]

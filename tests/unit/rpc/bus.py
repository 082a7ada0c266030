# SPDX-License-Identifier: Apache-2.0
"""A message bus within one process, empty at the start of each test."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from futurist import _thread as futurist_thread
from oslo_config import cfg
from oslo_messaging import conffixture

from tonnage.rpc import local_bus, options, transport

_MEMORY = "kombu+memory://"

#: Seconds after which a thread of a server that has nothing to do sees that it is to end; unless told otherwise, one.
_IDLE = 0.05


@contextlib.contextmanager
def memory_transport(
    response_timeout: int = 5, url: str = _MEMORY, rabbit: Mapping[str, Any] | None = None
) -> Iterator[transport.Transport]:
    """Give a transport on ``kombu+memory://`` whose queues nobody has used, or one on another bus.

    ``rabbit`` are options of the group ``oslo_messaging_rabbit``.
    """
    if url == _MEMORY:
        # The queues stay for the life of the process, with whatever an earlier test has left in them. Whoever listens
        # to them loses them: one bus of this kind at a time.
        local_bus.BUS.clear()
    conf = cfg.ConfigOpts()
    # Registers the groups that oslo.messaging keeps on cfg.CONF alone.
    with conffixture.ConfFixture(conf, transport_url=url), pytest.MonkeyPatch.context() as patch:
        patch.setattr(futurist_thread.ThreadWorker, "MAX_IDLE_FOR", _IDLE, raising=False)
        options.register(conf)
        conf([], project="tonnage", default_config_files=[])
        conf.set_override("transport_url", url)
        conf.set_override("rpc_response_timeout", response_timeout)
        for name, value in (rabbit or {}).items():
            conf.set_override(name, value, "oslo_messaging_rabbit")
        bus = transport.create(conf)
        yield bus
        bus.cleanup()

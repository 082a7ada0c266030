#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agents of many backends in one process: the agent's own classes with one connection to the message bus.

``tonnage-agent`` has a process for each backend, and a thousand processes do not fit in the memory of one machine. The
backends are those that ``enabled_backends`` names. The process ends with SIGTERM.
"""

import gc
import signal
import sys
import threading

from oslo_config import cfg

from tonnage.agent import builder, options
from tonnage.cli import setup
from tonnage.ledger.inventory import service_options
from tonnage.rpc import options as rpc_options
from tonnage.rpc import transport

#: Bytes of the stack of a thread: a process has several for each backend.
_STACK = 256 * 1024

#: Seconds for which a thread keeps the interpreter. Threads that wait for it wake up as often, and there are thousands.
_SWITCH_INTERVAL = 0.05


def main() -> None:
    """Run the agents until SIGTERM."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    threading.stack_size(_STACK)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    conf = cfg.CONF  # noqa: TID251  (oslo.messaging has groups that are registered there only)
    register = (options.register, rpc_options.register, service_options.register)
    setup.configure(conf, sys.argv[1:], "bench-agents", register)
    bus = transport.create(conf)
    agents = builder.build(conf, bus)
    gc.freeze()
    for agent in agents:
        agent.start()
    stopped.wait()
    for agent in agents:
        agent.operations.stop()


if __name__ == "__main__":
    main()

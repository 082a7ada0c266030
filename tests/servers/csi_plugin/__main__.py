# SPDX-License-Identifier: Apache-2.0
"""The plug-in as a program: ``python -m tests.servers.csi_plugin FOLDER [GiB]``. It prints its endpoint."""

import pathlib
import signal
import sys

from tests.servers.csi_plugin import CsiPlugin, Settings


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with CsiPlugin(folder, Settings(sizes={"": size * 2**30})) as plugin:
        print(plugin.endpoint, flush=True)
        signal.sigwait(signals)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A plugin of the Container Storage Interface whose volumes are folders, written to the standard's rules.

For tests: each segment of its cluster is a folder with a size, a volume in it a folder with a file of the volume's
size. It keeps nothing in memory, so another process can go on where one was killed.
"""

from tests.servers.csi_plugin.serving import CsiPlugin
from tests.servers.csi_plugin.volumes import Refused, Settings

__all__ = ["CsiPlugin", "Refused", "Settings"]

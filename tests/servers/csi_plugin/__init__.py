# SPDX-License-Identifier: Apache-2.0
"""A plug-in of the Container Storage Interface for tests, whose volumes are folders, by the rules of the standard.

Each segment of its cluster is a folder with a size. Each volume in it is a folder with a file of the volume's size. The
plug-in has no state in memory, so another process can continue after a kill.
"""

from tests.servers.csi_plugin.serving import CsiPlugin
from tests.servers.csi_plugin.volumes import Refused, Settings

__all__ = ["CsiPlugin", "Refused", "Settings"]

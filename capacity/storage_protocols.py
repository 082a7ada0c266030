# SPDX-License-Identifier: Apache-2.0
"""Storage protocols that have several names, as the Block Storage service knows them."""

#: Names that mean the same. Those of NVMe over fabrics say nothing of the transport, as ``NVMe-TCP`` and its like do.
_NAMES = (
    ("iSCSI", "iscsi"),
    ("FC", "fibre_channel", "fc"),
    ("NFS", "nfs"),
    ("NVMe-oF", "NVMeOF", "nvmeof"),
)

_SPELLINGS = {name: names for names in _NAMES for name in names}


def spellings(protocol: object) -> object:
    """Return all names of a protocol, if it has several; anything else, also a list that a driver reports, as it is."""
    return _SPELLINGS.get(protocol, protocol) if isinstance(protocol, str) else protocol

# SPDX-License-Identifier: Apache-2.0
"""The commands of the ``lvm`` driver: the complete list, in their exact words.

``etc/sudoers.d/tonnage-lvm`` permits these commands and no others. A change of a command needs the same change there,
and in the table in ``docs/lvm.rst``.
"""

#: Tags of unfinished copies, and of thin snapshots that are volumes.
UNFINISHED = "tonnage.unfinished"
VOLUME = "tonnage.volume"

#: Queried fields of each logical volume, and of its group.
LV_FIELDS = (
    "lv_name",
    "lv_size",
    "lv_layout",
    "lv_role",
    "lv_attr",
    "lv_active",
    "lv_suspended",
    "lv_inactive_table",
    "lv_device_open",
    "lv_health_status",
    "lv_tags",
    "pool_lv",
    "origin",
    "data_percent",
    "metadata_percent",
    "lv_metadata_size",
)
VG_FIELDS = ("vg_name", "vg_size", "vg_free", "vg_extent_size", "vg_attr", "vg_tags")

_REPORT = ("--reportformat", "json", "--units", "b", "--nosuffix", "--options")


def list_volumes(group: str) -> list[str]:
    """List the logical volumes of a group, except internal ones, each with the group's figures."""
    return ["lvs", *_REPORT, ",".join((*LV_FIELDS, *VG_FIELDS)), group]


def show_group(group: str) -> list[str]:
    """Show a group's figures, even if it is empty."""
    return ["vgs", *_REPORT, ",".join(VG_FIELDS), group]


def create_thick(group: str, name: str, size_gb: int) -> list[str]:
    """Create an allocated volume. Its head is zeroed, to hide the signatures of earlier volumes in the same place."""
    return [
        *("lvcreate", "--yes", "--activate", "y", "--wipesignatures", "y", "--zero", "y"),
        *("--name", name, "--size", f"{size_gb}g", group),
    ]


def create_thin(group: str, pool: str, name: str, size_gb: int) -> list[str]:
    """Create a volume that takes space from a thin pool as it is written."""
    return [
        *("lvcreate", "--yes", "--activate", "y"),
        *("--name", name, "--virtualsize", f"{size_gb}g", "--thinpool", pool, group),
    ]


def create_unfinished(group: str, name: str, size_gb: int) -> list[str]:
    """Create a thick volume with the tag of an unfinished copy."""
    return [
        *("lvcreate", "--yes", "--activate", "y", "--wipesignatures", "y", "--zero", "y", "--addtag", UNFINISHED),
        *("--name", name, "--size", f"{size_gb}g", group),
    ]


def snapshot(group: str, source: str, name: str) -> list[str]:
    """Create an unfinished thin volume with the content of another; both share their blocks until one is written to."""
    return [
        *("lvcreate", "--yes", "--snapshot", "--setactivationskip", "n", "--activate", "y"),
        *("--addtag", VOLUME, "--addtag", UNFINISHED, "--name", name, f"{group}/{source}"),
    ]


def copy(group: str, source: str, name: str, offset: int, length: int) -> list[str]:
    """Copy a range of a volume, in bytes, to the same range of another."""
    return [
        *("dd", f"if=/dev/{group}/{source}", f"of=/dev/{group}/{name}", "bs=4M"),
        *(f"skip={offset}", f"seek={offset}", f"count={length}"),
        *("iflag=direct,skip_bytes,count_bytes", "oflag=direct,seek_bytes"),
        *("conv=nocreat,notrunc,fsync", "status=none"),
    ]


def finish(group: str, name: str) -> list[str]:
    """Remove the tag of an unfinished copy."""
    return ["lvchange", "--deltag", UNFINISHED, f"{group}/{name}"]


def create_pool(group: str, pool: str) -> list[str]:
    """Create a thin pool of nearly all free space; its metadata can grow into the rest."""
    return ["lvcreate", "--yes", "--type", "thin-pool", "--extents", "95%FREE", "--name", pool, group]


def extend(group: str, name: str, size_gb: int) -> list[str]:
    """Extend a volume to a size."""
    return ["lvextend", "--size", f"{size_gb}g", f"{group}/{name}"]


def rename(group: str, name: str, new_name: str) -> list[str]:
    """Rename a volume."""
    return ["lvrename", group, name, new_name]


def zero(group: str, name: str, offset: int, length: int) -> list[str]:
    """Overwrite a range of a volume, in bytes, with zeros; fails if the volume is in use."""
    return ["blkdiscard", "--zeroout", "--offset", str(offset), "--length", str(length), f"/dev/{group}/{name}"]


def remove(group: str, name: str) -> list[str]:
    """Remove a volume; fails if it is in use."""
    return ["lvremove", "--yes", f"{group}/{name}"]


def activate(group: str, name: str) -> list[str]:
    """Activate a volume or a thin pool in the kernel."""
    return ["lvchange", "--activate", "y", f"{group}/{name}"]


def refresh(group: str, name: str) -> list[str]:
    """Reload a volume in the kernel from LVM's metadata."""
    return ["lvchange", "--refresh", f"{group}/{name}"]


def tag_group(group: str, tag: str) -> list[str]:
    """Add a tag to a group."""
    return ["vgchange", "--addtag", tag, group]


def tag_pool(group: str, pool: str, tag: str) -> list[str]:
    """Add a tag to a thin pool."""
    return ["lvchange", "--addtag", tag, f"{group}/{pool}"]

# SPDX-License-Identifier: Apache-2.0
"""The commands of the ``lvm`` driver: all that it ever runs, in exactly these words.

``etc/sudoers.d/tonnage-lvm`` permits these and no others, so whoever changes one changes both, and the table in
``docs/lvm.rst``.
"""

#: On what a copy is made into until it is complete, and on thin snapshots that are volumes.
UNFINISHED = "tonnage.unfinished"
VOLUME = "tonnage.volume"

#: What is asked of each logical volume, with the figures of its group beside it.
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
    """All logical volumes of a group but those inside of others, each with the group's figures."""
    return ["lvs", *_REPORT, ",".join((*LV_FIELDS, *VG_FIELDS)), group]


def show_group(group: str) -> list[str]:
    """A group's figures, also if it is empty."""
    return ["vgs", *_REPORT, ",".join(VG_FIELDS), group]


def create_thick(group: str, name: str, size_gb: int) -> list[str]:
    """A volume that has its space. Its head is zeroed, so that nothing is found there that once lay in that place."""
    return [
        *("lvcreate", "--yes", "--activate", "y", "--wipesignatures", "y", "--zero", "y"),
        *("--name", name, "--size", f"{size_gb}g", group),
    ]


def create_thin(group: str, pool: str, name: str, size_gb: int) -> list[str]:
    """A volume that takes space from a thin pool as it is written."""
    return [
        *("lvcreate", "--yes", "--activate", "y"),
        *("--name", name, "--virtualsize", f"{size_gb}g", "--thinpool", pool, group),
    ]


def create_unfinished(group: str, name: str, size_gb: int) -> list[str]:
    """The same as a thick volume, with the mark of one that something is still to be copied into."""
    return [
        *("lvcreate", "--yes", "--activate", "y", "--wipesignatures", "y", "--zero", "y", "--addtag", UNFINISHED),
        *("--name", name, "--size", f"{size_gb}g", group),
    ]


def snapshot(group: str, source: str, name: str) -> list[str]:
    """A thin volume that has the content of another, in common until one of them is written to; unfinished as well."""
    return [
        *("lvcreate", "--yes", "--snapshot", "--setactivationskip", "n", "--activate", "y"),
        *("--addtag", VOLUME, "--addtag", UNFINISHED, "--name", name, f"{group}/{source}"),
    ]


def copy(group: str, source: str, name: str, offset: int, length: int) -> list[str]:
    """Copy a part of a volume, in bytes, to the same place in another."""
    return [
        *("dd", f"if=/dev/{group}/{source}", f"of=/dev/{group}/{name}", "bs=4M"),
        *(f"skip={offset}", f"seek={offset}", f"count={length}"),
        *("iflag=direct,skip_bytes,count_bytes", "oflag=direct,seek_bytes"),
        *("conv=nocreat,notrunc,fsync", "status=none"),
    ]


def finish(group: str, name: str) -> list[str]:
    """Take the mark off a volume that is complete."""
    return ["lvchange", "--deltag", UNFINISHED, f"{group}/{name}"]


def create_pool(group: str, pool: str) -> list[str]:
    """A thin pool of nearly all that is free; the rest is for its metadata to grow."""
    return ["lvcreate", "--yes", "--type", "thin-pool", "--extents", "95%FREE", "--name", pool, group]


def extend(group: str, name: str, size_gb: int) -> list[str]:
    """Grow a volume to a size."""
    return ["lvextend", "--size", f"{size_gb}g", f"{group}/{name}"]


def rename(group: str, name: str, new_name: str) -> list[str]:
    """Give a volume another name."""
    return ["lvrename", group, name, new_name]


def zero(group: str, name: str, offset: int, length: int) -> list[str]:
    """Overwrite a part of a volume, in bytes, with zeros; fails if the volume is in use."""
    return ["blkdiscard", "--zeroout", "--offset", str(offset), "--length", str(length), f"/dev/{group}/{name}"]


def remove(group: str, name: str) -> list[str]:
    """Remove a volume; fails if it is in use."""
    return ["lvremove", "--yes", f"{group}/{name}"]


def activate(group: str, name: str) -> list[str]:
    """Have the kernel show a volume or a thin pool."""
    return ["lvchange", "--activate", "y", f"{group}/{name}"]


def refresh(group: str, name: str) -> list[str]:
    """Have the kernel show a volume as LVM has it written down."""
    return ["lvchange", "--refresh", f"{group}/{name}"]


def tag_group(group: str, tag: str) -> list[str]:
    """Mark a group."""
    return ["vgchange", "--addtag", tag, group]


def tag_pool(group: str, pool: str, tag: str) -> list[str]:
    """Mark a thin pool."""
    return ["lvchange", "--addtag", tag, f"{group}/{pool}"]

# SPDX-License-Identifier: Apache-2.0
"""The pools of the ``filesystem`` driver: their configuration, and the preparation of their folders at start."""

import os
from collections.abc import Collection, Sequence

from oslo_config import cfg
from oslo_log import log as logging

import tonnage
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import storage_identity
from tonnage.drivers.filesystem import volume_files
from tonnage.drivers.filesystem.folder_pool import OWNER_MARK, SAFE_NAME, Pool, location
from tonnage.drivers.options import POOL_OPTS, Section, capabilities, kinds, provisioning_opt

LOG = logging.getLogger(__name__)

_POOL_OPTIONS: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "filesystem_path",
        help="Folder for the volumes. It is created if it does not exist, so mount the file system for it first. With "
        "filesystem_pools each pool has a subfolder of its name, or the folder that its own section sets.",
    ),
    cfg.IntOpt(
        "filesystem_size_limit_gb",
        min=1,
        help="Maximum space of the files in the folder, in GiB; the size of the file system if that is less. In the "
        "section of a backend with several pools it limits each pool, not their sum. If unset, the size of the file "
        "system is the limit.",
    ),
    provisioning_opt("filesystem_provisioning", default="thin"),
)

#: The driver's options.
OPTIONS: Sequence[cfg.Opt] = (
    cfg.ListOpt(
        "filesystem_pools",
        default=[],
        help="Names of the pools. If unset, the backend is one pool of the same name. A section [backend:pool] "
        "has the settings of one pool, for example [ssd:gold] for the pool gold of the backend ssd: "
        "filesystem_path, filesystem_size_limit_gb, filesystem_provisioning, reserved_percentage, "
        "max_over_subscription_ratio, extra_capabilities, filter_function, goodness_function, "
        "min_free_capacity_percentage, min_free_capacity_extend_percentage. All other settings come from the "
        "backend's section.",
    ),
    *_POOL_OPTIONS,
)


def configured_pools(backend: str, conf: Section) -> list[Pool]:
    """Return the pools of a backend's section. Raises ConfigurationError."""
    names = conf.filesystem_pools
    if len(set(names)) != len(names):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] filesystem_pools = {', '.join(names)}: each name may stand there once"
        )
    return [_named_pool(backend, conf, name) for name in names] or [
        _make_pool(backend, conf, backend.rpartition("@")[2], conf.filesystem_path)
    ]


def prepare(pools: Collection[Pool]) -> None:
    """Create the missing folders, verify that volumes can be created in all of them, and mark them as owned.

    A configuration that is refused marks no folder. Raises ConfigurationError.
    """
    pools_by_identity: dict[tuple[int, int], Pool] = {}
    for pool in pools:
        try:
            os.makedirs(pool.path, mode=0o700, exist_ok=True)
            with volume_files.open_folder(pool.path) as folder:
                _require_owner(pool, pool.owner(folder))
                _check_folder(pool, folder)
                identity = volume_files.identity(folder)
                pool.identity, pool.storage_id = identity, storage_identity.identify(folder)
                pool.required_mark = None
        except OSError as error:
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: {pool.path} cannot be used: {error.strerror or error}; "
                "name a folder (no symbolic link) that this user may read and write"
            ) from error
        other = pools_by_identity.setdefault(identity, pool)
        if other is not pool:
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: {pool.path} is the folder of pool {other.name!r} too; "
                "give each pool one of its own"
            )
    for pool in pools:
        _mark_folder(pool)


def _named_pool(backend: str, conf: Section, name: str) -> Pool:
    if not SAFE_NAME.fullmatch(name):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] filesystem_pools: {name!r} is no name for a pool; "
            "it takes letters, digits, '_', '-' and '.', the first a letter or digit"
        )
    section = conf.pool(name, (*POOL_OPTS, *_POOL_OPTIONS))
    path = section.filesystem_path
    if path and not section.sets("filesystem_path"):
        path = os.path.join(path, name)
    return _make_pool(backend, section, name, path)


def _make_pool(backend: str, section: Section, name: str, path: str | None) -> Pool:
    if not path:
        raise errors.ConfigurationError(
            f"[{section.section_name}] filesystem_path is not set; it names the folder for the volumes"
        )
    provisioning = kinds(section.filesystem_provisioning)
    return Pool(
        name=name,
        full_name=f"{backend}#{name}",
        section=section.section_name,
        path=os.path.abspath(path),
        limit_bytes=None if section.filesystem_size_limit_gb is None else section.filesystem_size_limit_gb * GIB,
        provisioning_kinds=provisioning,
        capabilities={
            **capabilities(section, backend),
            "vendor_name": "Tonnage",
            "driver_version": tonnage.__version__,
            "storage_protocol": "file",
            "QoS_support": False,
            "multiattach": False,
            "location_info": location(os.path.abspath(path)),
            "thin_provisioning_support": Provisioning.THIN in provisioning,
            "thick_provisioning_support": Provisioning.THICK in provisioning,
        },
    )


def _check_folder(pool: Pool, folder: int) -> None:
    """Verify that the folder can be used, and free the space of interrupted extends."""
    if pool.problem(folder):  # the first report logs it, and lists the files
        return
    try:
        allocates = volume_files.can_allocate(folder)
    except OSError as error:
        if error.errno in volume_files.OUT_OF_SPACE:  # volumes can still be deleted
            LOG.warning("The file system of %s is full", pool.path)
            return
        if error.errno not in volume_files.UNNAMED_UNSUPPORTED:
            raise
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: the file system of {pool.path} cannot make files without a name "
            "(O_TMPFILE); use a local ext4, xfs, btrfs or tmpfs"
        ) from error
    if Provisioning.THICK in pool.provisioning_kinds and not allocates:
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_provisioning: the file system of {pool.path} cannot allocate space in "
            "advance; set it to thin, or use ext4, xfs, btrfs or tmpfs"
        )
    with volume_files.locked(folder):
        for file in volume_files.files(folder):
            # The size of a volume is whole GiB; other files stay unchanged.
            if file.used > file.size > 0 == file.size % GIB and volume_files.trim_excess(folder, file):
                LOG.info("Freed the space that an interrupted extend of %s had allocated in %s", file.name, pool.path)


def _mark_folder(pool: Pool) -> None:
    """Mark the folder. Another pool that started at the same time may have marked it first."""
    try:
        with volume_files.open_folder(pool.path) as folder:
            _require_owner(pool, pool.claim(folder))
            os.fsync(folder)
    except OSError as error:
        way_out = (
            "make room for one more file there"
            if error.errno in volume_files.OUT_OF_SPACE
            else "let this user write to it"
        )
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: {pool.path} cannot be marked as that of pool {pool.full_name}: "
            f"{error.strerror or error}; {way_out}"
        ) from error


def _require_owner(pool: Pool, owner: str | None) -> None:
    """Raise ConfigurationError if a pool's folder belongs to another pool.

    The two pools would treat each other's volumes as copies and orphans, and delete the only copy.
    """
    if owner not in (None, pool.full_name):
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: {pool.path} belongs to pool {owner}, and "
            f"{pool.full_name} needs a folder of its own; if that pool is gone for good or was renamed, remove "
            f"{os.path.join(pool.path, OWNER_MARK)}"
        )

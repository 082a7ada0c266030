# SPDX-License-Identifier: Apache-2.0
"""How pools of the ``filesystem`` driver come to be: from the configuration, and made ready at start."""

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
from tonnage.drivers.filesystem.folder_pool import MARK, SAFE_NAME, Pool, location
from tonnage.drivers.options import POOL_OPTS, Section, capabilities, kinds, provisioning_opt

LOG = logging.getLogger(__name__)

_OF_A_POOL: Sequence[cfg.Opt] = (
    cfg.StrOpt(
        "filesystem_path",
        help="Folder for the volumes. It is made if it does not exist, so a file system that belongs there has to be "
        "mounted first. With filesystem_pools each pool has a folder of its name in it, or the one that its own "
        "section names.",
    ),
    cfg.IntOpt(
        "filesystem_size_limit_gb",
        min=1,
        help="Most that the files in the folder may take up, in GiB; the size of the file system if that is less. Set "
        "for a backend with several pools it limits each of them, not their sum. Unset, only the file system limits.",
    ),
    provisioning_opt("filesystem_provisioning", default="thin"),
)

#: The driver's options.
OPTIONS: Sequence[cfg.Opt] = (
    cfg.ListOpt(
        "filesystem_pools",
        default=[],
        help="Names of the pools. Unset, the backend is one pool named like it. What is different for a pool "
        "stands in a section [backend:pool], for example [ssd:gold] for the pool gold of the backend ssd: "
        "filesystem_path, filesystem_size_limit_gb, filesystem_provisioning, reserved_percentage, "
        "max_over_subscription_ratio, extra_capabilities, filter_function, goodness_function, "
        "min_free_capacity_percentage, min_free_capacity_extend_percentage. All else comes from the backend's "
        "section.",
    ),
    *_OF_A_POOL,
)


def pools(backend: str, conf: Section) -> list[Pool]:
    """Return the pools that a backend's section describes. Raises ConfigurationError."""
    names = conf.filesystem_pools
    if len(set(names)) != len(names):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] filesystem_pools = {', '.join(names)}: each name may stand there once"
        )
    return [_named(backend, conf, name) for name in names] or [
        _configured(backend, conf, backend.rpartition("@")[2], conf.filesystem_path)
    ]


def prepare(made: Collection[Pool]) -> None:
    """Make the folders that are missing, see that volumes can be made in all of them, and mark them as the pools' own.

    Nothing is marked by a configuration that is refused. Raises ConfigurationError.
    """
    seen: dict[tuple[int, int], Pool] = {}
    for pool in made:
        try:
            os.makedirs(pool.path, mode=0o700, exist_ok=True)
            with volume_files.opened(pool.path) as folder:
                _refuse_other(pool, pool.owner(folder))
                _check(pool, folder)
                identity = volume_files.identity(folder)
                pool.folder, pool.storage_id = identity, storage_identity.identify(folder)
        except OSError as error:
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: {pool.path} cannot be used: {error.strerror or error}; "
                "name a folder (no symbolic link) that this user may read and write"
            ) from error
        other = seen.setdefault(identity, pool)
        if other is not pool:
            raise errors.ConfigurationError(
                f"[{pool.section}] filesystem_path: {pool.path} is the folder of pool {other.name!r} too; "
                "give each pool one of its own"
            )
    for pool in made:
        _claim(pool)


def _named(backend: str, conf: Section, name: str) -> Pool:
    if not SAFE_NAME.fullmatch(name):
        raise errors.ConfigurationError(
            f"[{conf.section_name}] filesystem_pools: {name!r} is no name for a pool; "
            "it takes letters, digits, '_', '-' and '.', the first a letter or digit"
        )
    section = conf.pool(name, (*POOL_OPTS, *_OF_A_POOL))
    path = section.filesystem_path
    if path and not section.sets("filesystem_path"):
        path = os.path.join(path, name)
    return _configured(backend, section, name, path)


def _configured(backend: str, section: Section, name: str, path: str | None) -> Pool:
    if not path:
        raise errors.ConfigurationError(
            f"[{section.section_name}] filesystem_path is not set; it names the folder for the volumes"
        )
    made = kinds(section.filesystem_provisioning)
    return Pool(
        name=name,
        full_name=f"{backend}#{name}",
        section=section.section_name,
        path=os.path.abspath(path),
        limit=None if section.filesystem_size_limit_gb is None else section.filesystem_size_limit_gb * GIB,
        kinds=made,
        capabilities={
            **capabilities(section, backend),
            "vendor_name": "Tonnage",
            "driver_version": tonnage.__version__,
            "storage_protocol": "file",
            "QoS_support": False,
            "multiattach": False,
            "location_info": location(os.path.abspath(path)),
            "thin_provisioning_support": Provisioning.THIN in made,
            "thick_provisioning_support": Provisioning.THICK in made,
        },
    )


def _check(pool: Pool, folder: int) -> None:
    """See that the folder can be used and tidy it up."""
    if pool.trouble(folder):  # the first report says so, and tells what is there
        return
    try:
        allocates = volume_files.can_allocate(folder)
    except OSError as error:
        if error.errno in volume_files.NO_ROOM:  # volumes can still be deleted
            LOG.warning("The file system of %s is full", pool.path)
            return
        if error.errno not in volume_files.NO_UNNAMED:
            raise
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: the file system of {pool.path} cannot make files without a name "
            "(O_TMPFILE); use a local ext4, xfs, btrfs or tmpfs"
        ) from error
    if Provisioning.THICK in pool.kinds and not allocates:
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_provisioning: the file system of {pool.path} cannot allocate space in "
            "advance; set it to thin, or use ext4, xfs, btrfs or tmpfs"
        )
    with volume_files.locked(folder):
        for file in volume_files.files(folder):
            # A volume is whole GiB; what else lies there is not ours to touch.
            if file.used > file.size > 0 == file.size % GIB and volume_files.trimmed(folder, file):
                LOG.info("Gave back what an interrupted extend of %s had allocated in %s", file.name, pool.path)


def _claim(pool: Pool) -> None:
    """Mark the folder. Another pool, which began at the same time, may have been faster."""
    try:
        with volume_files.opened(pool.path) as folder:
            _refuse_other(pool, pool.claimed(folder))
            os.fsync(folder)
    except OSError as error:
        way_out = (
            "make room for one more file there" if error.errno in volume_files.NO_ROOM else "let this user write to it"
        )
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: {pool.path} cannot be marked as that of pool {pool.full_name}: "
            f"{error.strerror or error}; {way_out}"
        ) from error


def _refuse_other(pool: Pool, owner: str | None) -> None:
    """Raise ConfigurationError if a pool's folder is another's.

    The two would take each other's volumes for copies and orphans, and delete the only one that there is.
    """
    if owner not in (None, pool.full_name):
        raise errors.ConfigurationError(
            f"[{pool.section}] filesystem_path: {pool.path} belongs to pool {owner}, and "
            f"{pool.full_name} needs a folder of its own; if that pool is gone for good or was renamed, remove "
            f"{os.path.join(pool.path, MARK)}"
        )

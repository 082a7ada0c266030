# SPDX-License-Identifier: Apache-2.0
"""Clones, migrations and managed files of the file-system driver, beyond the contract."""

import dataclasses
import errno
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.drivers import configured, mounts
from tests.unit.drivers.filesystem import overtaken
from tests.unit.drivers.filesystem.overtaken import OvertakenDriver
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers import loader
from tonnage.drivers.base import Source, Terms, Volume
from tonnage.drivers.filesystem import sparse_copy
from tonnage.drivers.filesystem.folder_pool import CopyInProgress

THIN, THICK = Provisioning.THIN, Provisioning.THICK
GENEROUS = Terms(ratio=1000.0, calculation=Calculation.STANDARD)
MIB = 1 << 20


@dataclass(frozen=True)
class FolderBackend:
    """A driver with its folder, which is also a source of copies."""

    driver: OvertakenDriver
    folder: Path

    def source(self, name: str, size_gb: int = 1) -> Source:
        return Source(
            id=name,
            backend=self.driver.backend,
            pool=self.driver.backend.rpartition("@")[2],
            size_gb=size_gb,
            location=f"filesystem:{socket.gethostname()}:{self.folder}",
        )

    def names(self) -> list[str]:
        """Return the names in the folder, without the mark of its owner."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != ".tonnage-pool")

    def figures(self) -> dict[str, Any]:
        (one,) = self.driver.report()
        return dict(one)


@pytest.fixture
def tmp_volumes(tmp_path: Path) -> Iterator[Path]:
    """A folder for volumes, removed at the end: pytest keeps its own for three more runs."""
    path = tmp_path / "places"
    path.mkdir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Copies:
    """Copies of files that wait before their first byte while ``go_on`` is not set.

    They fail with the ``error``, or since their source ``is_written`` meanwhile.
    """

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.error: OSError | None = None
        self.is_written = False
        self._real = sparse_copy.copy

    def copy(self, source: int, target: int, share: bool) -> bool:
        """Copy unless it is to fail."""
        self.began.set()
        assert self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        return self._real(source, target, share) and not self.is_written


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """The copies of all drivers."""
    copies = Copies()
    monkeypatch.setattr(sparse_copy, "copy", copies.copy)
    return copies


@pytest.fixture
def make_backend(tmp_volumes: Path) -> Callable[..., FolderBackend]:
    """A factory of backends with one pool."""

    def make_backend(
        name: str, text: str = "filesystem_provisioning = both", folder: Path | None = None
    ) -> FolderBackend:
        folder = folder or tmp_volumes / name
        conf_folder = tmp_volumes / f"{name}-conf"
        conf_folder.mkdir(exist_ok=True)
        text = f"[{name}]\nvolume_driver = filesystem\nfilesystem_path = {folder}\n{textwrap.dedent(text)}\n"
        driver = loader.build(OvertakenDriver, f"host@{name}", name, configured.conf(conf_folder, text))
        assert isinstance(driver, OvertakenDriver)
        driver.check()
        return FolderBackend(driver, folder)

    return make_backend


@pytest.fixture
def here(make_backend: Callable[..., FolderBackend]) -> FolderBackend:
    return make_backend("here")


@pytest.fixture
def there(make_backend: Callable[..., FolderBackend]) -> FolderBackend:
    return make_backend("there")


def volume(name: str, size_gb: int = 1, kind: Provisioning = THIN, pool: str = "here", **more: Any) -> Volume:
    return Volume(id=name, pool=pool, size_gb=size_gb, provisioning=kind, **more)


def filled(path: Path, size: int = GIB, seed: int = 1, data: int = 5 * MIB) -> Path:
    """Create a file with some content and holes."""
    draw = random.Random(seed)
    with path.open("wb") as file:
        file.truncate(size)
        for _ in range(data // MIB):
            file.seek(draw.randrange(size - MIB))
            file.write(draw.randbytes(MIB))
        file.seek(size - 5)
        file.write(b"last!")
    return path


def same(one: Path, other: Path) -> bool:
    with one.open("rb") as first, other.open("rb") as second:
        return sparse_copy.same_content(first.fileno(), second.fileno())


def used(path: Path) -> int:
    return path.stat().st_blocks * 512


# Sources of copies


def test_a_source_on_another_machine_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    filled(there.folder / "v")
    path = there.folder
    for location in ("", "filesystem", f"filesystem:elsewhere:{path}", f"memory:{socket.gethostname()}", f"nfs:{path}"):
        source = Source(id="v", backend="other@x", pool="x", size_gb=1, location=location)
        with pytest.raises(errors.DriverError, match=f"is no folder on this machine, {socket.gethostname()}") as caught:
            here.driver.migrate(volume("v"), source)
        assert caught.value.clean
    source = Source(id="v", backend="a@x", pool="x", size_gb=1, location=f"filesystem:{socket.gethostname()}:places")
    with pytest.raises(errors.DriverError, match="is no folder"):
        here.driver.migrate(volume("v"), source)
    assert here.names() == []


def test_a_missing_source_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    with pytest.raises(
        errors.DriverError, match=f"volume v cannot be read: No such file .* in {there.folder}"
    ) as caught:
        here.driver.migrate(volume("v"), there.source("v"))
    assert caught.value.clean
    shutil.rmtree(there.folder)
    with pytest.raises(errors.DriverError, match="cannot be read"):
        here.driver.migrate(volume("v"), there.source("v"))


def test_a_source_that_is_not_a_regular_file_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    filled(there.folder.parent / "secret")
    (there.folder / "link").symlink_to(there.folder.parent / "secret")
    (there.folder / "folder").mkdir()
    os.mkfifo(there.folder / "pipe")
    for name in ("link", "folder", "pipe", "../secret", "/etc/passwd"):
        with pytest.raises(errors.DriverError) as caught:
            here.driver.migrate(volume("v"), there.source(name))
        assert caught.value.clean
    assert here.names() == []


def test_a_migration_within_one_folder_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    """The migration would delete its source, which is the only copy."""
    filled(here.folder / "v")
    source = dataclasses.replace(there.source("v"), location=here.source("v").location)
    with pytest.raises(errors.DriverError, match="is the folder that it is in already") as caught:
        here.driver.migrate(volume("v"), source)
    assert caught.value.clean
    assert here.names() == ["v"]


def test_copies_between_pools_of_one_backend(make_backend: Callable[..., FolderBackend], tmp_volumes: Path) -> None:
    both = make_backend("here", "filesystem_pools = one, two")
    original = filled(tmp_volumes / "here" / "one" / "v")
    source = Source(id="v", backend="host@here", pool="one", size_gb=1, location="whatever:it:is")
    both.driver.migrate(volume("v", pool="two"), source)
    both.driver.clone(volume("w", pool="two"), source)
    assert same(original, tmp_volumes / "here" / "two" / "v")
    assert same(original, tmp_volumes / "here" / "two" / "w")
    with pytest.raises(errors.DriverError, match="no folder on this machine"):
        both.driver.clone(volume("x", pool="two"), Source(id="v", backend="host@here", pool="nix", size_gb=1))


# Content and provisioning of copies


@pytest.mark.parametrize(("kind", "is_thick"), [(THIN, False), (THICK, True)])
@pytest.mark.parametrize("from_thick", [False, True])
def test_a_copy_has_the_requested_provisioning(
    here: FolderBackend, there: FolderBackend, kind: Provisioning, is_thick: bool, from_thick: bool
) -> None:
    there.driver.create(volume("v", 1, THICK if from_thick else THIN, pool="there"))
    with (there.folder / "v").open("r+b") as file:
        file.seek(500 * MIB)
        file.write(b"content")
    here.driver.migrate(volume("v", 2, kind), there.source("v"))
    here.driver.create(volume("s"))
    here.driver.clone(volume("w", 2, kind), here.source("s"))
    for name in ("v", "w"):
        assert (here.folder / name).stat().st_size == 2 * GIB
        assert (used(here.folder / name) >= 2 * GIB) is is_thick
        if not is_thick:
            assert used(here.folder / name) < MIB
    assert same(there.folder / "v", here.folder / "v")
    assert (here.folder / "v").stat().st_mode & 0o777 == 0o600


def test_a_source_larger_than_the_volume_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    filled(there.folder / "v", GIB + 1)
    for operation, source in ((here.driver.migrate, there.source("v")), (here.driver.clone, here.source("v"))):
        if operation == here.driver.clone:
            filled(here.folder / "v", GIB + 1)
        with pytest.raises(errors.DriverError, match=f"has {GIB + 1} bytes, more than 1 GiB") as caught:
            operation(volume("w"), source)
        assert caught.value.clean
    assert here.names() == ["v"]


def test_a_source_written_during_the_copy_is_an_error(
    here: FolderBackend, there: FolderBackend, copies: Copies
) -> None:
    path = filled(there.folder / "v")
    copies.is_written = True
    with pytest.raises(errors.DriverError, match="its source was written to meanwhile") as caught:
        here.driver.migrate(volume("v"), there.source("v"))
    assert caught.value.clean
    assert here.names() == []
    copies.is_written = False
    here.driver.migrate(volume("v"), there.source("v"))
    assert same(path, here.folder / "v")


def test_an_existing_copy_without_its_source_is_not_a_finished_migration(
    here: FolderBackend, there: FolderBackend
) -> None:
    filled(there.folder / "v")
    here.driver.migrate(volume("v"), there.source("v"))
    (there.folder / "v").rename(there.folder / "hidden")
    with pytest.raises(errors.DriverError, match="cannot be read") as caught:
        here.driver.migrate(volume("v"), there.source("v"))
    assert not caught.value.clean, "there is a copy"
    assert here.names() == ["v"]


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_a_thin_clone_shares_its_blocks_and_a_thick_one_has_its_own(
    make_backend: Callable[..., FolderBackend], tmp_path: Path, kind: str
) -> None:
    with mounts.mounted(kind, tmp_path, 3000) as point:
        here = make_backend("here", folder=point / "volumes")
        filled(here.folder / "v", data=100 * MIB)

        def taken(name: str, provisioning: Provisioning) -> int:
            mounts.commit(point)
            before = os.statvfs(point)
            here.driver.clone(volume(name, 1, provisioning, terms=GENEROUS), here.source("v"))
            mounts.commit(point)
            assert same(here.folder / "v", here.folder / name)
            return (before.f_bfree - os.statvfs(point).f_bfree) * before.f_frsize

        assert taken("thin", THIN) < 20 * MIB
        assert taken("thick", THICK) >= GIB


# Capacity


def test_a_thin_copy_needs_physical_space_for_its_data(
    make_backend: Callable[..., FolderBackend], there: FolderBackend
) -> None:
    filled(there.folder / "v", data=50 * MIB)
    here = make_backend("here", "filesystem_size_limit_gb = 1\nreserved_percentage = 0")
    with (here.folder / "other").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, GIB - 20 * MIB)
    wide = Terms(ratio=20.0, calculation=Calculation.STANDARD)
    with pytest.raises(
        errors.CapacityExceeded, match=r"host@here#here cannot take 0\.0\d GiB of data: .* room for 0\.0"
    ):
        here.driver.migrate(volume("v", terms=wide), there.source("v"))
    assert here.names() == ["other"]
    filled(there.folder / "small", data=MIB)
    here.driver.migrate(volume("small", terms=wide), there.source("small"))


@pytest.mark.parametrize(
    "kind", ["ext4", "btrfs", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("tmpfs", "xfs"))]
)
def test_a_disk_that_fills_up_during_an_operation(
    make_backend: Callable[..., FolderBackend],
    there: FolderBackend,
    tmp_path: Path,
    kind: str,
) -> None:
    filled(there.folder / "v", data=400 * MIB)
    with mounts.mounted(kind, tmp_path, 320) as point:
        here = make_backend("here", folder=point / "volumes")
        before = here.figures()
        # Other programs take the space after the driver has checked it.
        here.driver.meanwhile = overtaken.nothing
        with pytest.raises(
            errors.CapacityExceeded, match=f"volume v in pool host@here#here: .*No space left.* {point}"
        ):
            here.driver.migrate(volume("v", terms=GENEROUS), there.source("v"))
        assert here.names() == []
        if kind == "btrfs":  # reports it only then
            mounts.commit(point)
        assert here.figures()["free_capacity_gb"] == pytest.approx(before["free_capacity_gb"], abs=0.03)
        here.driver.meanwhile = None
        with pytest.raises(errors.CapacityExceeded, match="GiB of data"):
            here.driver.migrate(volume("v", terms=GENEROUS), there.source("v"))
    assert there.names() == ["v"]


@pytest.mark.parametrize("kind", [THIN, THICK])
def test_a_copy_in_progress_counts_for_admission_and_not_in_reports(
    make_backend: Callable[..., FolderBackend],
    there: FolderBackend,
    copies: Copies,
    kind: Provisioning,
) -> None:
    here = make_backend("here", "filesystem_size_limit_gb = 4\nfilesystem_provisioning = both")
    filled(there.folder / "v")
    once = Terms(ratio=1.0, calculation=Calculation.CINDER)
    copies.go_on.clear()
    work = threading.Thread(target=here.driver.migrate, args=(volume("v", 3, kind, terms=once), there.source("v")))
    work.start()
    assert copies.began.wait(60)
    reported = here.figures()
    assert reported["provisioned_capacity_gb"] == 0
    assert reported["free_capacity_gb"] == 4
    assert here.driver.list_volumes() == []
    for other in (THIN, THICK) if kind is THICK else (THIN,):
        with pytest.raises(errors.CapacityExceeded):
            here.driver.create(volume("w", 2, other, terms=once))
        with pytest.raises(errors.CapacityExceeded):
            here.driver.migrate(volume("w", 2, other, terms=once), there.source("v"))
    here.driver.create(volume("w", 1, kind, terms=once))
    with pytest.raises(errors.CapacityExceeded):
        here.driver.extend(volume("w", 1, kind, terms=once), 2)
    copies.go_on.set()
    work.join(60)
    assert {one.id: one.size_gb for one in here.driver.list_volumes()} == {"v": 3, "w": 1}
    assert here.figures()["provisioned_capacity_gb"] == 4


def test_a_failed_copy_frees_its_capacity(
    make_backend: Callable[..., FolderBackend], there: FolderBackend, copies: Copies
) -> None:
    here = make_backend("here", "filesystem_size_limit_gb = 4\nfilesystem_provisioning = both")
    filled(there.folder / "v")
    once = Terms(ratio=1.0, calculation=Calculation.CINDER)
    copies.error = OSError(errno.EIO, "Input/output error")
    for kind in (THIN, THICK):
        with pytest.raises(errors.DriverError, match="Input/output error") as caught:
            here.driver.migrate(volume("v", 4, kind, terms=once), there.source("v"))
        assert caught.value.clean
        here.driver.create(volume("w", 4, kind, terms=once))
        here.driver.delete(volume("w", 4, kind))
    assert here.names() == []


def test_a_copy_can_fail_while_the_copies_in_progress_are_counted(here: FolderBackend) -> None:
    """A failed copy is removed without the lock of the folder."""
    in_progress: dict[str, Any] = here.driver._pools["here"].copies

    class Failing:
        allocated = to_write = 0

        @property
        def size(self) -> int:
            del in_progress["v"]
            return GIB

    in_progress |= {"v": Failing(), "w": CopyInProgress(size=GIB, allocated=0, to_write=0)}
    here.driver.create(volume("x"))
    assert here.names() == ["x"]


# Crashes

_WORKER = """
import os, pathlib, sys
from tests.unit.drivers import configured
from tonnage.capacity.request import Provisioning
from tonnage.drivers import loader
from tonnage.drivers.filesystem import sparse_copy, volume_files
from tonnage.drivers.base import Source, Volume

driver = loader.load("host@here", "here", configured.conf(pathlib.Path(sys.argv[1]), sys.argv[2]))
driver.check()

def telling(function):
    def wrapped(*args):
        print(function.__name__, flush=True)
        return function(*args)
    return wrapped

sparse_copy._CHUNK = 1 << 20
sparse_copy._share_blocks = lambda *_: False
os.sendfile = telling(os.sendfile)
os.fsync = telling(os.fsync)
volume_files.give_name = telling(volume_files.give_name)
source = Source(id="v", backend="host@there", pool="there", size_gb=1, location=sys.argv[3])
driver.migrate(Volume(id="v", pool="here", size_gb=2, provisioning=Provisioning(sys.argv[4])), source)
print("done", flush=True)
sys.stdin.read()
"""


_MOMENTS = ("sendfile 1", "sendfile 7", "sendfile 20", "fsync 2", "give_name 1", "done 1")


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        # The normal suite tests each moment with one kind.
        pytest.param(last, kind, marks=pytest.mark.heavy if (number + position) % 2 else ())
        for number, last in enumerate(_MOMENTS)
        for position, kind in enumerate((THIN, THICK))
    ],
)
def test_a_killed_copy_leaves_nothing_and_can_be_repeated(
    here: FolderBackend, there: FolderBackend, tmp_path: Path, last: str, kind: Provisioning
) -> None:
    original = filled(there.folder / "v", data=40 * MIB)
    text = f"[here]\nvolume_driver = filesystem\nfilesystem_path = {here.folder}\nfilesystem_provisioning = both\n"
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, tmp_path, text, there.source("v").location, kind],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdin is not None
    word, times = last.split()
    with worker.stdout as output, worker.stdin:
        seen = 0
        while seen < int(times):
            line = output.readline()
            assert line, f"the worker ended before {last}"
            seen += line.strip() == word
        worker.send_signal(signal.SIGKILL)
        assert worker.wait(timeout=60) == -signal.SIGKILL
    here.driver.check()
    if word in ("sendfile", "fsync"):
        assert here.names() == []
    elif word == "done":
        assert here.names() == ["v"]
    here.driver.migrate(volume("v", 2, kind), there.source("v"))
    assert here.names() == ["v"]
    assert same(original, here.folder / "v")
    assert (here.folder / "v").stat().st_size == 2 * GIB
    assert (used(here.folder / "v") >= 2 * GIB) is (kind is THICK)
    assert same(original, filled(there.folder.parent / "again", data=40 * MIB)), "the source was touched"


# Managing


@pytest.mark.parametrize(
    "name", ["image.raw", ".hidden", "two words", "-rf", "\N{GREEK SMALL LETTER ALPHA}", "x" * 255]
)
def test_any_file_can_be_managed(here: FolderBackend, name: str) -> None:
    filled(here.folder / name)
    twin = filled(here.folder.parent / "twin")
    assert here.driver.manage(volume("v", 0), name) == 1
    assert here.names() == ["v"]
    assert same(here.folder / "v", twin)


@pytest.mark.parametrize(("size", "size_gb"), [(1, 1), (GIB - 1, 1), (GIB, 1), (GIB + 1, 2), (3 * GIB // 2, 2)])
def test_managing_rounds_the_size_up_to_whole_gib(here: FolderBackend, size: int, size_gb: int) -> None:
    path = here.folder / "image"
    path.write_bytes(b"x")
    os.truncate(path, size)
    assert here.driver.manage(volume("v", 0), "image") == size_gb
    assert (here.folder / "v").stat().st_size == size_gb * GIB
    assert used(here.folder / "v") < MIB
    with (here.folder / "v").open("rb") as file:
        assert file.read(2) == b"x\0"
    assert here.figures()["provisioned_capacity_gb"] == size_gb


def test_managing_a_thick_volume_allocates_it(here: FolderBackend) -> None:
    filled(here.folder / "image", 3 * GIB // 2)
    twin = filled(here.folder.parent / "twin", 3 * GIB // 2)
    assert here.driver.manage(volume("v", 0, THICK), "image") == 2
    assert used(here.folder / "v") >= 2 * GIB == (here.folder / "v").stat().st_size
    assert same(here.folder / "v", twin)


@pytest.mark.parametrize(("kind", "missing"), [(THIN, r"0\.75"), (THICK, r"1\.9\d*")])
def test_a_file_that_does_not_fit_stays_unchanged(
    make_backend: Callable[..., FolderBackend], kind: Provisioning, missing: str
) -> None:
    text = "filesystem_size_limit_gb = 2\nfilesystem_provisioning = both\nmax_over_subscription_ratio = 1"
    here = make_backend("here", text)
    here.driver.create(volume("w", 1, kind))
    path = filled(here.folder / "image", 5 * GIB // 4)
    before = path.stat()
    with pytest.raises(errors.CapacityExceeded, match=f"host@here#here cannot take {missing} GiB {kind}"):
        here.driver.manage(volume("v", 0, kind), "image")
    assert here.names() == ["image", "w"]
    assert (path.stat().st_size, path.stat().st_blocks) == (before.st_size, before.st_blocks)


def test_a_reference_that_is_not_a_file_of_the_pool_is_refused(here: FolderBackend, there: FolderBackend) -> None:
    filled(there.folder / "v")
    (here.folder / "link").symlink_to(there.folder / "v")
    (here.folder / "folder").mkdir()
    filled(here.folder / "folder" / "inside")
    os.mkfifo(here.folder / "pipe")
    (here.folder / "empty").touch()
    filled(here.folder / "double")
    os.link(here.folder / "double", here.folder / "other name")
    before = here.names()
    for name in (
        "", ".", "..", "../there/v", f"{there.folder}/v", "folder/inside", "a\0b", "link", "folder", "pipe", "empty",
        "double", "none", "y" * 300,
    ):  # fmt: skip
        with pytest.raises(errors.DriverError) as caught:
            here.driver.manage(volume("v", 0), name)
        assert caught.value.clean
    assert here.names() == before
    assert there.names() == ["v"]


def test_managing_needs_a_provisioning_of_the_pool(make_backend: Callable[..., FolderBackend]) -> None:
    here = make_backend("here", "filesystem_provisioning = thin")
    filled(here.folder / "image")
    with pytest.raises(errors.DriverError, match="makes no thick volumes"):
        here.driver.manage(volume("v", 0, THICK), "image")


def test_a_file_with_the_volumes_name_is_managed_in_place(here: FolderBackend) -> None:
    filled(here.folder / "v", GIB // 2)
    assert here.driver.manage(volume("v", 0), "v") == 1
    assert (here.folder / "v").stat().st_size == GIB


def test_managing_does_not_replace_a_name_that_was_taken_meanwhile_and_can_be_repeated(here: FolderBackend) -> None:
    filled(here.folder / "image", GIB // 2)
    here.driver.meanwhile = lambda: (here.folder / "v").write_text("precious", encoding="utf-8")
    with pytest.raises(errors.DriverError, match="File exists"):
        here.driver.manage(volume("v", 0), "image")
    assert (here.folder / "v").read_text(encoding="utf-8") == "precious"
    assert here.names() == ["image", "v"]
    (here.folder / "v").unlink()
    here.driver.meanwhile = None
    assert here.driver.manage(volume("v", 0), "image") == 1
    assert here.names() == ["v"]

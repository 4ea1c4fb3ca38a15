"""Output files: complete on the disk before they have their name, and never over what must not be replaced."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.errors import ArgumentError
from StaICC.files.output import check_outputs, write_output


class ObservedFiles:
    """Records what of a file was on the disk when it got its name, by replacing functions of ``os``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.synchronised_content: dict[int, bytes] = {}
        """By inode: the content of a file when it was last synchronised."""
        self.names: list[tuple[str, bytes | None]] = []
        """Each name that a file got, with its synchronised content then; ``None`` if there was none."""
        self._fsync, self._replace, self._link = os.fsync, os.replace, os.link
        patch.setattr(os, "fsync", self.fsync)
        patch.setattr(os, "replace", self.replace)
        patch.setattr(os, "link", self.link)

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            self.synchronised_content[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def replace(self, source: Any, target: Any) -> None:
        self._note_name(source, target)
        self._replace(source, target)

    def link(self, source: Any, target: Any) -> None:
        self._note_name(source, target)
        self._link(source, target)

    def _note_name(self, source: Any, target: Any) -> None:
        inode = os.stat(source).st_ino
        self.names.append((os.fspath(target), self.synchronised_content.get(inode)))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads a file by its descriptor, as Linux can")
@pytest.mark.parametrize("fresh", [False, True], ids=["replaces a file", "new file"])
@given(parts=st.lists(st.binary(max_size=20) | st.just(bytes(100_000)), max_size=4))
def test_a_file_is_complete_on_the_disk_before_it_has_its_name(
    fresh: bool, parts: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A power cut could otherwise leave the name with an empty file, and the earlier file would be lost."""
    path = tmp_path_factory.mktemp("out") / "result.json"
    if not fresh:
        path.write_bytes(b"the earlier result")

    with pytest.MonkeyPatch.context() as patch:
        observed = ObservedFiles(patch)
        write_output(path, parts, fresh)

    content = b"".join(parts)
    assert path.read_bytes() == content
    assert observed.names == [(str(path), content)], "the content was not synchronised before the file got its name"
    assert list(path.parent.iterdir()) == [path], "no other file is left"


def refuse_space(*_: Any) -> None:
    """Fail as on a full disk."""
    raise OSError(28, "No space left on device")


def parts_that_fail() -> Iterator[bytes]:
    """Yield half of a content, then fail as on a full disk."""
    yield b"half of the result"
    refuse_space()


@pytest.mark.parametrize("fresh", [False, True])
def test_a_content_that_fails_leaves_no_file(fresh: bool, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        write_output(tmp_path / "result.json", parts_that_fail(), fresh)

    assert caught.value.filename is not None
    assert list(tmp_path.iterdir()) == []


def test_a_content_that_fails_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"the earlier result")

    with pytest.raises(OSError, match="No space left"):
        write_output(path, parts_that_fail())

    assert path.read_bytes() == b"the earlier result"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_of_the_system_leaves_the_earlier_file(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"the earlier result")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse_space)
        with pytest.raises(OSError, match="No space left") as caught:
            write_output(path, [b"the result"])

    assert caught.value.filename is not None
    assert path.read_bytes() == b"the earlier result"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_whose_content_cannot_be_synchronised_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse_space)
        with pytest.raises(OSError, match="No space left"):
            write_output(tmp_path / "result.json", [b"the result"], fresh=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["replace", "link"])
def test_a_new_file_needs_hard_links_or_renaming(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links, a new file is made and replaced."""
    path = tmp_path / "result.json"

    with monkeypatch.context() as patch:
        patch.setattr(os, missing, refuse_space)
        write_output(path, [b"the result"], fresh=True)

    assert path.read_bytes() == b"the result"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_that_is_replaced_keeps_its_mode_and_its_link(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "target.json"
    target.write_text("earlier", "utf-8")
    target.chmod(mode)
    link = tmp_path / "link.json"
    link.symlink_to(target)

    write_output(link, [b"later"])

    assert link.is_symlink()
    assert target.read_bytes() == b"later"
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_new_file_is_never_written_over_one_that_appeared_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    def parts() -> Iterator[bytes]:
        path.write_bytes(b"of another program")
        yield b"ours"

    with pytest.raises(FileExistsError):
        write_output(path, parts(), fresh=True)
    assert path.read_bytes() == b"of another program"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database of SQLite, as prediction stores are."""
    path = tmp_path / "store.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    return path


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_no_file_of_a_database_is_an_output(suffix: str, database: Path) -> None:
    path = database.with_name(f"store.sqlite{suffix}")

    with pytest.raises(ArgumentError, match="a file of a prediction store"):
        write_output(path, [b"x"])
    with pytest.raises(ArgumentError, match="a file of a prediction store"):
        check_outputs([path])
    assert database.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_no_file_of_a_store_that_the_command_will_make_is_an_output(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"new.sqlite{suffix}"

    with pytest.raises(ArgumentError, match="the prediction store of this command"):
        check_outputs([path], stores=[tmp_path / "new.sqlite"])


@pytest.mark.parametrize("path", ["rows.csv", "link.csv", "folder/../rows.csv"])
def test_an_output_that_is_an_input_is_refused_whatever_its_path(tmp_path: Path, path: str) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("text,label\n", "utf-8")
    (tmp_path / "link.csv").symlink_to(data)
    (tmp_path / "folder").mkdir()

    with pytest.raises(ArgumentError, match="is an input of this command"):
        check_outputs([tmp_path / path], inputs=[data])


@pytest.mark.parametrize("path", ["new.json", "NEW.json", "folder/../new.json"])
def test_an_output_that_is_another_output_is_refused_whatever_its_path(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(ArgumentError, match="is another output of this command"):
        check_outputs([tmp_path / "new.json", None, tmp_path / path])


def test_different_outputs_and_inputs_are_accepted(tmp_path: Path) -> None:
    check_outputs([tmp_path / "new.json", tmp_path / "other.json"], inputs=[tmp_path / "rows.csv"])

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


@contextlib.contextmanager
def observed_names() -> Iterator[list[tuple[str, bytes | None]]]:
    """Record the state in which files get their names.

    Yields:
        Each name that a file gets, with its content when it was last synchronised; ``None`` if it never was.
    """
    synchronised: dict[int, bytes] = {}
    named: list[tuple[str, bytes | None]] = []
    original = {name: getattr(os, name) for name in ("fsync", "replace", "link")}

    def fsync(descriptor: int) -> None:
        original["fsync"](descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            synchronised[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def naming(name: str) -> Any:
        def give_name(source: Any, target: Any) -> None:
            named.append((os.fspath(target), synchronised.get(os.stat(source).st_ino)))
            original[name](source, target)

        return give_name

    replacements = {"fsync": fsync, "replace": naming("replace"), "link": naming("link")}
    with pytest.MonkeyPatch.context() as patching:
        for name, function in replacements.items():
            patching.setattr(os, name, function)
        yield named


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads a file by its descriptor, as Linux can")
@pytest.mark.parametrize("fresh", [False, True])
@given(parts=st.lists(st.binary(max_size=20) | st.just(bytes(100_000)), max_size=4))
def test_a_file_is_complete_on_the_disk_before_it_has_its_name(
    fresh: bool, parts: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Otherwise a power cut could leave the name with an empty file, and the earlier file would be lost."""
    path = tmp_path_factory.mktemp("out") / "result.json"
    if not fresh:
        path.write_bytes(b"the earlier result")
    with observed_names() as named:
        write_output(path, parts, fresh)
    content = b"".join(parts)
    assert path.read_bytes() == content
    assert named == [(str(path), content)], "the content was not synchronised (os.fsync) before the file got its name"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("failing", ["content", "fsync", "replace", "link"])
def test_a_failure_leaves_the_earlier_file_and_nothing_else(
    fresh: bool, failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    earlier = [] if fresh else [b"the earlier result"]
    for content in earlier:
        path.write_bytes(content)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def parts() -> Iterator[bytes]:
        yield b"half of "
        if failing == "content":
            full()
        yield b"the result"

    if failing != "content":
        monkeypatch.setattr(os, failing, full)
    is_needed = failing in ("content", "fsync") or (failing == "replace" and not fresh)
    if not is_needed:  # without hard links, a new file is made and replaced
        write_output(path, parts(), fresh)
        assert path.read_bytes() == b"half of the result"
    else:
        with pytest.raises(OSError, match="No space left") as caught:
            write_output(path, parts(), fresh)
        assert caught.value.filename is not None
        assert [file.read_bytes() for file in tmp_path.iterdir()] == earlier
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == int(path.exists())


@pytest.mark.posix
def test_a_file_that_is_replaced_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text("earlier", "utf-8")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    for mode in (0o600, 0o640):
        target.chmod(mode)
        write_output(link, [b"later"])
        assert (link.is_symlink(), target.read_bytes()) == (True, b"later")
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


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_no_file_of_a_database_is_an_output(suffix: str, tmp_path: Path) -> None:
    database = tmp_path / "store.sqlite"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t (a)")
    path = tmp_path / f"store.sqlite{suffix}"
    for write in (lambda: write_output(path, [b"x"]), lambda: check_outputs([path])):
        with pytest.raises(ArgumentError, match="a file of a prediction store"):
            write()
    assert database.read_bytes().startswith(b"SQLite format 3")
    missing = tmp_path / f"new.sqlite{suffix}"  # the store of a command that does not exist yet
    with pytest.raises(ArgumentError, match="the prediction store of this command"):
        check_outputs([missing], stores=[tmp_path / "new.sqlite"])


def test_an_output_is_no_input_and_no_other_output_whatever_its_path(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("text,label\n", "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(data)
    for path in (data, tmp_path / "link.csv", tmp_path / "folder" / ".." / "rows.csv"):
        with pytest.raises(ArgumentError, match="is an input of this command"):
            check_outputs([path], inputs=[data])
    for path in (tmp_path / "new.json", tmp_path / "NEW.json", tmp_path / "folder" / ".." / "new.json"):
        with pytest.raises(ArgumentError, match="is another output of this command"):
            check_outputs([tmp_path / "new.json", None, path])
    check_outputs([tmp_path / "new.json", tmp_path / "other.json"], inputs=[data])

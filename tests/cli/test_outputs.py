"""Output files: whatever is passed as one, no input, store, folder, device, FIFO or link is destroyed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import StaICC
from StaICC.cli import main
from StaICC.datasets.storage import check_outputs, open_output, write_output
from StaICC.errors import ArgumentError
from StaICC.inference.store import PredictionStore, query_key

ROOT = Path(StaICC.__file__).parents[1]
RUN = ["run", "normal", "--datasets", "mini", "--limit", "3"]
POSIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs and devices")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with saved results, predictions, a store and links to them, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "tables").mkdir(parents=True)
    (tmp_path / "home" / "tables" / "TREC.table").write_bytes(b"frozen")
    result = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    result.save("r.json")
    result.save("s.json")
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model", [(query_key("p", ["a", "b"]), 1)])
    main(["prompts", "normal", "--datasets", "mini", "--limit", "3", "-o", "p.jsonl"])
    asked = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text("utf-8").splitlines()]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"id": one["id"], "index": 0}) + "\n" for one in asked))
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "samples_x.jsonl").write_text("{}\n")
    os.symlink("r.json", "link.json")
    os.symlink("link.json", "link2.json")
    os.symlink("run.sqlite", "link.sqlite")
    os.symlink("dir", "link.dir")
    os.symlink(tmp_path, "here")
    os.symlink("loop", "loop")
    os.link("r.json", "hard.json")
    os.link("run.sqlite", "hard.sqlite")
    (tmp_path / "locked.json").write_text("keep")
    return tmp_path


def state(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Type and content of everything in a folder, links not followed."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        content: bytes | str = ""
        if stat.S_ISLNK(kind):
            content = os.readlink(path)
        elif stat.S_ISREG(kind):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = kind, content
    return found


SCORE = ["score", "normal", "p.jsonl", "--datasets", "mini", "--limit", "3"]
DESTROYING = [
    [*RUN, "--store", "new.sqlite", "--json", "new.sqlite"],
    [*RUN, "--store", "new.sqlite", "--json", "NEW.sqlite"],
    [*RUN, "--store", "new.sqlite", "--json", "here/new.sqlite"],
    [*RUN, "--store", "run.sqlite", "--json", "run.sqlite-shm"],
    [*RUN, "--store", "run.sqlite", "--records", "run.sqlite-journal"],
    [*RUN, "--store", "link.sqlite", "--json", "run.sqlite-shm"],
    [*RUN, "--store", "run.sqlite", "--json", "hard.sqlite"],
    [*RUN, "--json", "link.sqlite"],
    [*RUN, "--records", "run.sqlite-wal"],
    [*RUN, "--json", "x.json", "--records", "x.json"],
    [*RUN, "--json", "x.json", "--records", "X.json"],
    [*RUN, "--json", "link.json", "--records", "r.json"],
    [*RUN, "--json", "dir"],
    [*RUN, "--json", "r.json/x"],
    [*RUN, "--json", "none/x"],
    [*RUN, "--json", "loop"],
    [*RUN, "--json", "home/tables/TREC.table"],
    [*RUN, "--json", "/dev/fd/987"],
    [*RUN, "--records", "-"],
    [*RUN, "--model", "gguf:r.json", "--json", "r.json"],
    ["report", "r.json", "-o", "r.json"],
    ["report", "r.json", "-o", "hard.json"],
    ["report", "link2.json", "-o", "r.json"],
    ["report", "r.json", "s.json", "-o", "s.json"],
    ["report", "r.json", "-o", "dir"],
    ["export", "queries", "s.json", "r.json", "-o", "hard.json"],
    ["export", "lm-eval", "r.json", "--datasets", "mini", "--limit", "1"],
    [*SCORE, "--json", "p.jsonl"],
    [*SCORE, "--records", "here/p.jsonl"],
    [*SCORE, "--json", "q", "--records", "q"],
    ["score", "normal", "dir", "--datasets", "mini", "--limit", "3", "--json", "dir/samples_x.jsonl"],
    ["prompts", "normal", "--datasets", "mini", "--limit", "1", "-o", "run.sqlite"],
    ["store", "export", "run.sqlite", "-o", "link.sqlite"],
    ["store", "export", "run.sqlite", "-o", "run.sqlite-wal"],
    ["store", "export", "run.sqlite", "-o", "r.json"],
    ["store", "merge", "run.sqlite", "link.sqlite"],
    ["store", "merge", "run.sqlite", "hard.sqlite"],
    ["store", "merge", "run.sqlite-journal", "run.sqlite"],
    ["store", "merge", "dir", "run.sqlite"],
    ["store", "merge", "r.json", "run.sqlite"],
]


@pytest.mark.parametrize("arguments", DESTROYING, ids=" ".join)
def test_nothing_is_destroyed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    import StaICC.benchmarks.experimentor as module

    def never(*given: object) -> object:
        raise AssertionError("predicted before the outputs were checked")

    monkeypatch.setattr(module, "ask", never)
    before = state(folder)
    capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("staicc: ")
    assert captured.err.count("\n") == 1
    after = state(folder)
    assert {name: after.get(name) for name in before} == before
    assert {name for name in after if name not in before} <= {"run.sqlite-shm"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(folder: Path) -> None:
    Path("locked.json").chmod(0o444)
    with pytest.raises(ArgumentError, match="is read-only"):
        write_output("locked.json", [b"new"])
    assert Path("locked.json").read_text() == "keep"


def test_a_result_is_not_saved_over_a_store(folder: Path) -> None:
    before = state(folder)
    result = StaICC.load("r.json")
    for name in ("run.sqlite", "link.sqlite", "hard.sqlite", "run.sqlite-wal", "run.sqlite-journal", "dir", "loop"):
        with pytest.raises(ArgumentError):
            result.save(name)
    for name in ("a\0b", "a\ud800"):
        with pytest.raises(ArgumentError, match="a character that no file name may contain"):
            result.save(name)
    assert state(folder) == before


def test_a_result_may_be_saved_again(folder: Path) -> None:
    result = StaICC.load("r.json")
    os.chmod("r.json", 0o640)
    result.save("link2.json")
    assert os.readlink("link2.json") == "link.json"
    assert os.readlink("link.json") == "r.json"
    assert StaICC.load("r.json") == result
    assert stat.S_IMODE(os.stat("r.json").st_mode) == 0o640
    assert main([*RUN, "--store", "run.sqlite", "--json", "r.json"]) == 0
    assert main([*RUN, "--store", "run.sqlite", "--json", "r.json"]) == 0


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_the_log_of_an_open_store_stays(folder: Path, suffix: str) -> None:
    with PredictionStore(folder / "run.sqlite") as store:
        store.put_many("model", [(query_key("more", ["a"]), 0)])
        assert Path("run.sqlite-wal").stat().st_size > 0
        before = Path(f"run.sqlite{suffix}").read_bytes()
        for arguments in ([*RUN, "--json"], ["report", "r.json", "-o"], ["export", "scores", "r.json", "-o"]):
            assert main([*arguments, f"run.sqlite{suffix}"]) == 2
        assert Path(f"run.sqlite{suffix}").read_bytes() == before
        assert store.info().answers == 2


def test_modes(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output("fresh", [b"1"])
        assert stat.S_IMODE(os.stat("fresh").st_mode) == 0o640
        os.chmod("fresh", 0o604)
        write_output("fresh", [b"2", b"3"])
        assert stat.S_IMODE(os.stat("fresh").st_mode) == 0o604
        assert Path("fresh").read_bytes() == b"23"
    finally:
        os.umask(before)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_a_trained_calibration_is_not_saved_over_a_store(folder: Path, suffix: str) -> None:
    pytest.importorskip("numpy")
    from StaICC.methods.calibration import ContextualCalibration

    os.symlink("run.sqlite", f"calibration.{suffix}")
    before = state(folder)
    made = ContextualCalibration(["a", "b"])
    made.trained = True
    with pytest.raises(ArgumentError, match="prediction store"):
        made.save(f"calibration.{suffix}")
    assert state(folder) == before


def test_a_dangling_link_gets_its_target(folder: Path) -> None:
    os.symlink("dir/to-be", "dangling")
    write_output("dangling", [b"x"])
    assert os.path.islink("dangling")
    assert Path("dir/to-be").read_bytes() == b"x"


def test_a_failure_leaves_the_old_file_and_nothing_else(folder: Path) -> None:
    before = state(folder)

    def fail() -> None:
        with open_output("link.json") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert state(folder) == before


def test_a_long_name(folder: Path) -> None:
    write_output("x" * 255, [b"x"])
    assert Path("x" * 255).read_bytes() == b"x"
    with pytest.raises(ArgumentError, match="cannot be written to"):
        check_outputs(["x" * 256])


def test_an_input_that_is_swapped_in_during_the_run_is_safe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.benchmarks.benchmark as module

    real: Callable[..., object] = module.Benchmark.__call__

    def swap(self: object, *given: object, **how: object) -> object:
        found = real(self, *given, **how)
        os.symlink("run.sqlite", "late.json")
        return found

    monkeypatch.setattr(module.Benchmark, "__call__", swap)
    before = Path("run.sqlite").read_bytes()
    assert main([*RUN, "--json", "late.json"]) == 2
    assert Path("run.sqlite").read_bytes() == before


# -- devices, FIFOs, open descriptors


def staicc(*arguments: str, shell: str | None = None, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run the command line, or a line of bash with the command line in ``$STAICC``."""
    command = [sys.executable, "-m", "StaICC", *arguments]
    if shell is not None:
        command = ["bash", "-c", shell.replace("$STAICC", f"{sys.executable} -m StaICC")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=120)


EXPORT = ["export", "queries", "r.json", "--json"]


@POSIX
def test_a_fifo_is_written_to(folder: Path) -> None:
    os.mkfifo("fifo")
    os.symlink("fifo", "link.fifo")
    for name in ("fifo", "link.fifo"):
        read: list[bytes] = []
        reader = threading.Thread(target=lambda read=read: read.append(Path("fifo").read_bytes()))
        reader.start()
        StaICC.load("r.json").save(name)
        reader.join(timeout=60)
        assert json.loads(read[0])["kind"] == "result"
        assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    assert os.path.islink("link.fifo")


@POSIX
def test_devices_are_written_to(folder: Path) -> None:
    os.symlink("/dev/null", "null")
    for name in ("/dev/null", "null"):
        assert main([*RUN, "--json", name, "--records", name]) == 0
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.path.islink("null")
    with pytest.raises(OSError, match="No space left"):
        write_output("/dev/full", [b"x"])


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices")
def test_a_device_node_of_the_user_stays(folder: Path) -> None:
    try:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        Path("null").write_bytes(b"")
    except OSError:
        pytest.skip("no device can be made or opened here")
    before = os.stat("null")
    StaICC.load("r.json").save("null")
    assert os.path.samestat(os.stat("null"), before)
    assert stat.S_ISCHR(os.stat("null").st_mode)


@POSIX
def test_a_socket_is_refused(folder: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(ArgumentError, match="neither a file nor a pipe"):
            StaICC.load("r.json").save("socket")


@POSIX
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/../dev/stdout", "out-link"])
def test_stdout_by_name(folder: Path, name: str) -> None:
    os.symlink("/dev/stdout", "out-link")
    expected = staicc(*EXPORT, folder=folder).stdout
    assert expected
    piped = staicc(*EXPORT, "-o", name, folder=folder)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, expected, b"")
    line = f"echo before > out; $STAICC {' '.join(EXPORT)} -o {name} >> out; echo after >> out"
    written = staicc(shell=line, folder=folder)
    assert written.returncode == 0
    assert (folder / "out").read_bytes() == b"before\n" + expected + b"after\n"


@POSIX
def test_stdout_that_is_an_input_is_refused(folder: Path) -> None:
    before = (folder / "r.json").read_bytes()
    done = staicc(shell="$STAICC export queries r.json -o /dev/stdout >> r.json", folder=folder)
    assert done.returncode == 2
    assert b"never overwritten" in done.stderr
    done = staicc(shell="$STAICC export queries r.json -o /dev/fd/5 5>> run.sqlite", folder=folder)
    assert done.returncode == 2
    assert (folder / "r.json").read_bytes() == before


@POSIX
def test_process_substitution(folder: Path) -> None:
    expected = staicc(*EXPORT, folder=folder).stdout
    done = staicc(shell=f"$STAICC {' '.join(EXPORT)} -o >(cat > copied); wait; sleep 1", folder=folder)
    assert done.returncode == 0
    assert (folder / "copied").read_bytes() == expected
    done = staicc(shell="$STAICC store export run.sqlite -o >(cat > copied); wait; sleep 1", folder=folder)
    assert done.returncode == 0
    assert json.loads((folder / "copied").read_bytes())["fingerprint"] == "model"
    done = staicc(shell="$STAICC export queries <(cat r.json) --json", folder=folder)
    assert done.stdout.count(b"\n") == expected.count(b"\n")


@POSIX
def test_two_outputs_to_one_pipe_are_refused(folder: Path) -> None:
    done = staicc(*RUN, "--json", "/dev/stdout", "--records", "/dev/fd/1", folder=folder)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"are the same file" in done.stderr


MODULE = """
class Mine:
    @classmethod
    def from_spec(cls, text, **options):
        return cls()

    def __call__(self, prompt, label_space):
        return [float(len(prompt) % (place + 2)) for place in range(len(label_space))]


def share(truth, rows):
    return 1.0
"""


@pytest.mark.parametrize("option", ["--model", "--metrics"])
@pytest.mark.parametrize("output", ["--json", "--records"])
def test_the_source_of_a_plug_in_is_an_input(
    option: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"source_of{option.strip('-')}_{output.strip('-')}"
    source = tmp_path / f"{name}.py"
    source.write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    value = f"{name}:Mine" if option == "--model" else f"standard+{name}:share"
    assert main(["run", "normal", "--datasets", "mini", "--limit", "2", option, value, output, str(source)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert source.read_text(encoding="utf-8") == MODULE

"""Output files: whatever is passed as one, no input, store, folder, device, FIFO or link is destroyed."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import identified_queries
from StaICC.cli import main
from StaICC.files.output import write_output
from StaICC.inference.store import PredictionStore, query_key
from tests.cli.conftest import Cli

RUN = ["run", "normal", "--datasets", "mini", "--limit", "3"]
pytestmark = pytest.mark.posix


@pytest.fixture(scope="module")
def folder_of_results_and_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with saved results, predictions and a store."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("tables", "models", "long_icl"):
        (folder / "home" / name).mkdir(parents=True)
        (folder / "home" / name / "file").write_bytes(b"installed")
    benchmark = StaICC.Normal(datasets=["mini"], limit=3)
    result = benchmark(lambda prompt, label_space: 0)
    result.save(folder / "r.json")
    result.save(folder / "s.json")
    with PredictionStore(folder / "run.sqlite") as store:
        store.put_many("model", [(query_key("p", ["a", "b"]), 1)])
    predictions = [{"id": query.id, "index": 0} for query in identified_queries(benchmark)]
    (folder / "p.jsonl").write_text("".join(json.dumps(prediction) + "\n" for prediction in predictions))
    (folder / "dir").mkdir()
    (folder / "dir" / "samples_x.jsonl").write_text("{}\n")
    (folder / "locked.json").write_text("keep")
    return folder


@pytest.fixture(autouse=True)
def folder(folder_of_results_and_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder with links, which is the working folder."""
    shutil.copytree(folder_of_results_and_stores, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    os.symlink("r.json", "link.json")
    os.symlink("link.json", "link2.json")
    os.symlink("run.sqlite", "link.sqlite")
    os.symlink("dir", "link.dir")
    os.symlink(str(tmp_path), "here")
    os.symlink("loop", "loop")
    os.link("r.json", "hard.json")
    os.link("run.sqlite", "hard.sqlite")
    return tmp_path


def state(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return the mode and the content of everything in a folder by its path; the content of a link is its target."""
    entries: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        content: bytes | str = ""
        if stat.S_ISLNK(kind):
            content = os.readlink(path)
        elif stat.S_ISREG(kind):
            content = path.read_bytes()
        entries[str(path.relative_to(folder))] = kind, content
    return entries


REFUSED_OUTPUTS = """
RUN --store new.sqlite --json new.sqlite
RUN --store new.sqlite --json NEW.sqlite
RUN --store new.sqlite --json new.sqlite-wal
RUN --store new.sqlite --json here/new.sqlite
RUN --store run.sqlite --json run.sqlite-shm
RUN --store run.sqlite --records run.sqlite-journal
RUN --store link.sqlite --json run.sqlite-shm
RUN --store run.sqlite --json hard.sqlite
RUN --json link.sqlite
RUN --records run.sqlite-wal
RUN --json x.json --records x.json
RUN --json x.json --records X.json
RUN --json link.json --records r.json
RUN --json dir
RUN --json r.json/x
RUN --json none/x
RUN --json loop
RUN --json home/tables/file
RUN --json home/models/file
RUN --records home/long_icl/file
RUN --json /dev/fd/987
RUN --records -
RUN --model gguf:r.json --json r.json
RUN --json locked.json
RUN --records r.json
RUN --dry-run --json r.json
RUN --output r.json
race --model ppm --model ppm --datasets mini --limit 3 --store new.sqlite --json new.sqlite-wal
prompts normal --datasets mini --limit 1 -o r.json
export scores s.json -o r.json
report s.json -o r.json
report r.json -o r.json
report r.json -o hard.json
report link2.json -o r.json
report r.json s.json -o s.json
report r.json -o dir
report r.json -o none/x
export scores r.json -o none/x
export scores r.json --output=
export queries s.json r.json -o hard.json
export lm-eval r.json --datasets mini --limit 1
SCORE p.jsonl --json p.jsonl
SCORE p.jsonl --records here/p.jsonl
SCORE p.jsonl --json q --records q
SCORE nosuch.jsonl --json none/x
SCORE dir --json dir/samples_x.jsonl
prompts normal --datasets mini --limit 1 -o run.sqlite
store export run.sqlite -o link.sqlite
store export run.sqlite -o run.sqlite-wal
store export run.sqlite -o r.json
store merge run.sqlite link.sqlite
store merge run.sqlite hard.sqlite
store merge run.sqlite-journal run.sqlite
store merge dir run.sqlite
store merge r.json run.sqlite
""".replace("RUN", " ".join(RUN)).replace("SCORE", "score normal --limit 3 --datasets mini")
"""Command lines whose output would be another file of the command, a file of another kind, or no file."""


@pytest.mark.parametrize("line", REFUSED_OUTPUTS.strip().splitlines())
def test_an_output_that_would_destroy_a_file_is_refused_before_the_first_prediction(
    folder: Path, staicc: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    from StaICC.inference import runner

    def run_too_early(*arguments: object) -> object:
        raise AssertionError("predicted before the outputs were checked")

    # The method, not the function: a module that is imported meanwhile would keep the function for the next tests.
    monkeypatch.setattr(runner._Evaluation, "run", run_too_early)
    before = state(folder)
    status, out, err = staicc(*line.split())
    assert status == 2
    assert out == ""
    assert err.startswith("staicc: ")
    assert err.count("\n") == 1

    after = state(folder)
    for name, entry in before.items():
        assert after.get(name) == entry, f"{name} is not as before"
    assert set(after) - set(before) <= {"run.sqlite-shm"}


@pytest.mark.parametrize("file", ["run.sqlite", "run.sqlite-wal", "run.sqlite-shm"])
@pytest.mark.parametrize(
    "command", [[*RUN, "--json"], ["report", "r.json", "-o"], ["export", "scores", "r.json", "-o"]], ids=" ".join
)
def test_the_files_of_an_open_store_are_no_outputs(command: list[str], file: str, folder: Path) -> None:
    with PredictionStore(folder / "run.sqlite") as store:
        store.put_many("model", [(query_key("more", ["a"]), 0)])
        assert Path("run.sqlite-wal").stat().st_size > 0, "the newest prediction is in the log"
        before = Path(file).read_bytes()
        assert main([*command, file]) == 2
        assert Path(file).read_bytes() == before
        assert store.info().answers == 2


@pytest.mark.parametrize("output", ["/dev/stdout", "printed"])
def test_records_that_go_to_stdout_by_its_path_follow_what_was_printed(output: str, folder: Path, program: Any) -> None:
    """The standard output is the file ``printed``, which has two paths then."""
    with open("printed", "w", encoding="utf-8") as printed:
        assert program(*RUN, "--no-save", "--records", output, stdout=printed).returncode == 0

    lines = Path("printed").read_text("utf-8").splitlines()
    assert lines[0] == "Normal"
    assert json.loads(lines[-1])["dataset"] == "mini"


@pytest.mark.parametrize(
    ("output", "stdout_is_the_file"), [("/dev/stdout", True), ("printed", True), ("printed", False)]
)
def test_a_message_follows_prompts_that_go_to_the_same_file(
    output: str, stdout_is_the_file: bool, folder: Path, program: Any
) -> None:
    """The standard error is the file ``printed``, too."""
    command = ["prompts", "normal", "--datasets", "mini", "-o", output]

    with open("printed", "w", encoding="utf-8") as printed:
        stdout = printed if stdout_is_the_file else None
        assert program(*command, stdout=stdout, stderr=printed).returncode == 0

    *prompts, message = Path("printed").read_text("utf-8").splitlines()
    test_rows, repeats = 96, 2

    assert [json.loads(prompt)["dataset"] for prompt in prompts] == ["mini"] * (test_rows * repeats)
    assert message == f"the prompts are in {output}"


def test_writing_to_stdout_keeps_the_order_of_what_is_printed_before_and_after(program: Any) -> None:
    code = "import StaICC.files.output as s; print(1); s.write_output('/dev/stdout', [b'2']); print(3)"

    assert program(code, start=("-c",)).stdout == "1\n23\n"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no such folder")
def test_a_regular_file_among_devices_is_replaced() -> None:
    path = Path(f"/dev/shm/staicc-{os.getpid()}")
    try:
        for content in (b"first", b"second"):
            write_output(path, [content])
        assert path.read_bytes() == b"second"
    finally:
        path.unlink(missing_ok=True)


def test_an_interrupt_while_a_file_is_written_leaves_the_old_one(folder: Path) -> None:
    before = state(folder)

    def interrupted_content() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_output("link.json", interrupted_content())
    assert state(folder) == before


def test_a_link_that_is_made_during_the_run_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the run, there is no file late.json. After it, late.json is a link to a file of installed data."""
    from StaICC.benchmarks.benchmark import Benchmark

    evaluate: Callable[..., object] = Benchmark.__call__

    def evaluate_and_link(self: object, *given: object, **settings: object) -> object:
        result = evaluate(self, *given, **settings)
        os.symlink("home/tables/file", "late.json")
        return result

    monkeypatch.setattr(Benchmark, "__call__", evaluate_and_link)
    assert main([*RUN, "--json", "late.json", "--overwrite"]) == 4
    assert Path("home/tables/file").read_bytes() == b"installed"

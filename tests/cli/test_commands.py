"""Commands: help, names, exit statuses, completion, streams; baseline, cite, run and store."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import _COMMANDS, _parser, main
from StaICC.datasets.catalogue import cite, names
from StaICC.inference.store import PredictionStore, query_key
from StaICC.results.result import load

MINI = ["run", "normal", "--datasets", "mini", "--limit", "2"]
Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", ["", *_COMMANDS])
def test_help(name: str, staicc: Cli) -> None:
    status, shown, _ = staicc(*filter(None, [name]), "--help")
    assert status == 0
    assert shown.startswith(f"usage: python -m StaICC {name}".rstrip())
    if name:
        assert f"python -m StaICC {name}" in shown.partition("examples:")[2]
        if "--model MODEL" in shown:  # `published` names models of published tables, which have no options
            assert ("--model-option" in shown) is (name != "published")
    else:
        assert [command for command in _COMMANDS if not re.search(rf"^ +{command}\b", shown, re.MULTILINE)] == []


@pytest.mark.parametrize("name", ["prompts", "score"])
def test_help_names_every_kind_of_a_prediction(name: str, staicc: Cli) -> None:
    _, shown, _ = staicc(name, "--help")
    assert "probabilities, logits, index, label, or reply" in " ".join(shown.split())


def test_a_full_disk_is_said_and_other_faults_are_not_hidden(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    file: str | None = "p.jsonl"

    def write(*given: object) -> None:
        raise OSError(fault, os.strerror(fault), file)

    monkeypatch.setattr("StaICC.cli.output.write_output", write)
    fault = errno.ENOSPC
    status, _, err = staicc("prompts", *MINI[1:], "-o", "p.jsonl")
    assert (status, err) == (2, f"staicc: p.jsonl: {os.strerror(errno.ENOSPC)}\n")
    fault, file = errno.EBADF, None
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        main(["prompts", *MINI[1:], "-o", "p.jsonl"])


SHOWN_MODEL = """\
class Model:
    def __call__(self, prompt, label_space):
        return label_space[0]

    def rendered(self, prompts, label_space=()):
        return [f"{', '.join(label_space)}: {prompt}" for prompt in prompts]

model = Model()
"""


def test_prompts_are_rendered_with_their_labels(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any kernel may write labels into prompts, or leave room for them."""
    Path("shown_model.py").write_text(SHOWN_MODEL, "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    prompts = ["prompts", *MINI[1:], "--model", "shown_model:model"]
    status, shown, _ = staicc(*prompts)
    assert status == 0
    for line in shown.splitlines():
        record = json.loads(line)
        assert record["rendered"] == f"{', '.join(record['label_space'])}: {record['prompt']}"

    status, shown, _ = staicc(*prompts, "--noisy-channel")
    assert status == 0
    for line in shown.splitlines():
        record = json.loads(line)
        assert record["rendered"] == [f": {prompt}" for prompt in record["prompt"]]


# -- as a program


def test_the_module_runs_without_data_and_says_where_it_is_missing(program: Any, tmp_path: Path) -> None:
    home = {"STAICC_HOME": str(tmp_path), "STAICC_OFFLINE": "1"}
    done = program(*MINI, "--no-save", env=home)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith("mini: 2 labels have no test row"), "with the limit of this run"
    assert done.stdout.startswith("Normal\n")
    assert list(tmp_path.iterdir()) == []
    done = program("run", "normal", "--datasets", "TREC", env=home)
    assert (done.returncode, done.stdout) == (3, "")
    assert "python -m StaICC data install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_console_script_finds_modules_in_the_current_folder(program: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "staicc").write_text("import sys\nfrom StaICC.cli import script\nsys.exit(script())\n")
    (tmp_path / "mine.py").write_text("def my_inference(prompt, label_space):\n    return 0\n")
    done = program(*MINI, "--model=mine:my_inference", start=("bin/staicc",), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "my_inference" in done.stdout


# -- ``baseline``: the table, the JSON, and what is refused


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "--n", "100", "--labels", "2", "--t", "1", "10", "--accuracy", "0.6"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, _, *rows = (line.split() for line in out.splitlines())
    assert [head, *rows] == [
        ["t", "baseline", "p", "<=", "0.05", "from", "p-value", "of", "60/100"],
        ["1", "0.50000", "0.59000", "0.0284"],
        ["10", "0.57678", "0.64000", "0.2507"],
    ]


def test_a_p_value_below_floating_point_is_not_printed_as_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "--n", "1200000", "--labels", "77", "--t", "10", "--accuracy", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[-1] == "1.35e-2263788"


@pytest.mark.parametrize(
    ("labels", "accuracy", "message"),
    [
        ("2", "0.333", "0.333 is no share of n = 100"),
        ("2", "60", "between 0 and 1, not '60'"),
        ("2:50,5:40", "0.5", "90 examples, but n is 100"),
    ],
)
def test_an_accuracy_that_is_no_share_of_n_is_refused(
    labels: str, accuracy: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", "--n", "100", "--labels", labels, "--accuracy", accuracy]) == 2
    assert message in capsys.readouterr().err


# -- ``published`` and ``plan``: every number in its place


def printed(*words: str) -> Any:
    args = _parser(words[0]).parse_args(words)
    return args.run(args)


@pytest.mark.parametrize(
    "words", ["", "--model Pythia --metric macro_F1", "--method TopK", "--benchmark diagnosis", "--dataset banking77"]
)
def test_a_table_of_published_figures_has_each_with_its_warnings(words: str) -> None:
    shown = printed("published", *words.split())
    figures, (table, *lines) = shown.document, shown.blocks
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    below = {text: mark for mark, _, text in (line.text.partition(" ") for line in lines)}
    for figure in figures:
        if figure["benchmark"] == figures[0]["benchmark"] and (words or figure["metric"] == "accuracy"):
            named = {key: figure[key] or "" for key in ("model", "method", "dataset", "metric") if key in table.head}
            (row,) = [row for row in rows if named.items() <= row.items()]
            warned = [figure["absent"]] if figure["absent"] else figure["warnings"]
            value = "-" if figure["value"] is None else f"{figure['value']:.4f}"
            cell = row.pop(figure["method" if figure["method"] in table.head else "metric"])
            assert cell == value + "".join(below[warning] for warning in warned)
            assert value == "-" or below[figure["source"]] == "source:"
    assert {cell for row in rows for name, cell in row.items() if name not in named} <= {""}


@pytest.mark.parametrize("words", [("--half-width", "0.05"), ("--difference", "0.1")])
def test_a_plan_counts_the_tokens_and_the_cost_of_each_design(words: tuple[str, str]) -> None:
    plan = printed("plan", *words, "--max-datasets", "10", "--tokens", "10", "2", "--prices", "1", "30")
    table, _, command = plan.blocks
    for row, design in zip(table.rows, plan.document["designs"], strict=True):
        sizes = [design[key] for key in ("datasets", "rows", "draws", "templates")]
        power = [] if design["power"] is None else [f"{design['power']:.2f}"]
        n = design["queries"]
        assert (design["tokens"], design["output_tokens"], design["cost"]) == (10 * n, 2 * n, pytest.approx(7e-5 * n))
        cells = [*map(str, sizes), f"{math.prod(sizes):,}", f"{12 * n:,}", f"{design['half_width']:.3f}", *power]
        assert row == [*cells, f"{7e-5 * n:.2f}"]
    best = plan.document["designs"][0]
    options = f"--limit {best['rows']} --draws {best['draws']} --templates {best['templates']}"
    assert command.text == f"for {best['datasets']} data sets: python -m StaICC run generalisation {options}"


# -- ``cite``


def entries(text: str) -> list[str]:
    return re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)


def test_the_benchmark_and_the_ten(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite"]) == 0
    text = capsys.readouterr().out
    assert entries(text)[0] == "cho2025staicc"
    assert len(set(entries(text))) == len(entries(text)), "BibTeX refuses a duplicate key"
    for name in names():
        assert set(entries(cite(name))) <= set(entries(text))
    assert main(["cite", "--methods"]) == 0
    assert {"min2022noisy", "cho2024token"} < {*entries(capsys.readouterr().out)}


def test_everything_that_can_be_run_can_be_cited(capsys: pytest.CaptureFixture[str]) -> None:
    """Every name that ``run`` takes for a benchmark, a data set or a method, and those that results carry."""
    from StaICC.benchmarks.builtin import BENCHMARKS
    from StaICC.long_icl.cards import cards
    from StaICC.methods.catalogue import METHODS

    carried = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens", "LongICL"]
    for name in (*names(), "mini", *cards(), *METHODS, *BENCHMARKS, *carried):
        assert main(["cite", name]) == 0
        text = capsys.readouterr().out
        assert entries(text)[0] == "cho2025staicc"
        assert text.count("{") == text.count("}"), name


def test_a_file_with_the_name_of_a_data_set_does_not_hide_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TREC").write_text("a file of the user", "utf-8")
    assert main(["cite", "TREC"]) == 0
    assert set(entries(cite("TREC"))) <= set(entries(capsys.readouterr().out))


# -- ``run``: every benchmark, saved, shown, and what it refuses


SMALL = ["--datasets", "mini", "--limit", "2"]


def test_the_settings_reach_the_benchmark(staicc: Cli) -> None:
    settings = ["--k", "2", "--noisy-channel", "--metrics", "0.1.1"]
    status, out, _ = staicc("run", "normal", *SMALL, *settings, "--json", "r.json", "--records", "r.jsonl")
    assert status == 0
    benchmark = StaICC.Normal(k=2, noisy_channel=True, metrics="0.1.1", datasets=["mini"], limit=2)
    expected = benchmark(StaICC.load_kernel("ppm"))
    expected.provenance = expected.provenance.named("ppm")
    assert load("r.json") == expected
    assert str(expected.signature) in out
    records = [json.loads(line) for line in Path("r.jsonl").read_text("utf-8").splitlines()]
    assert [(record["row"], record["repeat"]) for record in records] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    _, out, _ = staicc("run", "normal", *SMALL, "--outputs", "logits", "--tried", "9", "--json")
    result = StaICC.Result.from_dict(json.loads(out))
    assert result.signature.fields["outputs"] == "logits"
    assert result.details["mini"].baselines["normal"].tried == 9
    method = ["--method", "contextual-calibration", "--method-variant", "staicc", "--calibration-number", "8"]
    _, out, _ = staicc("run", "normal", *SMALL, *method, "--json")
    assert "staicc n=8" in StaICC.Result.from_dict(json.loads(out)).signature.fields["method"]


def test_predictions_are_kept_in_a_store(staicc: Cli) -> None:
    for name in ("a", "b"):
        command = ["run", "normal", *SMALL, "--store", "s", "--model-name", name, "--json", "r.json", "--overwrite"]
        first = staicc(*command)
        assert staicc(*command)[:2] == first[:2]
        assert load("r.json").provenance.predictors[0].name == name  # type: ignore[union-attr]
    with PredictionStore("s") as store:
        models = [(name.split()[-1], count) for name, count in store.info().models.items()]
    assert models == [("name:a", 4), ("name:b", 4)]


def test_a_partial_run_is_status_1(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.cli.model_options as module

    lost = StaICC.Normal(datasets=["mini"])[0].prompt_set()[0]
    monkeypatch.setattr(
        module,
        "load_kernel",
        lambda spec: lambda prompt, label_space: None if prompt == lost else [0.1 * len(prompt), 3.0, 2.0],
    )
    status, out, _ = staicc("run", "normal", *SMALL, "--on-error", "collect", "--json", "r.json")
    assert status == 1
    assert "PARTIAL: 1 of 4" in out
    assert not load("r.json").complete
    status, out, err = staicc("run", "normal", *SMALL)
    assert (status, out) == (2, "")
    assert err.startswith("staicc: Normal, mini, query 0: ")


# -- ``store``: data on stdout, exit status, JSON


KEYS = [query_key(f"prompt {number}", ["a", "b"]) for number in range(50)]


def store_command(*words: object) -> int:
    return main(["store", *map(str, words)])


@pytest.fixture
def path(tmp_path):
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model A", [(key, [0.25, 0.75]) for key in KEYS])
        store.put_many("model B", [(KEYS[0], 1)])
    return tmp_path / "run.sqlite"


def test_info(path, capsys):
    assert store_command("info", path) == 0
    out = capsys.readouterr().out
    assert "51 answers" in out
    assert "        50  model A\n         1  model B\n" in out
    assert store_command("info", path, "--json") == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["answers"], info["models"]) == (51, {"model A": 50, "model B": 1})


def test_export(path, tmp_path, capsys):
    assert store_command("export", path) == 0
    said = capsys.readouterr()
    assert said.err == "51 answers\n"
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert {"answer": [0.25, 0.75], "fingerprint": "model A", "key": KEYS[0].hex()} in lines
    assert store_command("export", path, "--output", tmp_path / "out.jsonl", "--json") == 0
    assert (tmp_path / "out.jsonl").read_text() == said.out
    assert store_command("export", path, "--output", tmp_path / "out.jsonl") == 2
    assert str(tmp_path / "out.jsonl") in capsys.readouterr().err


def test_merge(path, tmp_path, capsys):
    new = tmp_path / "all.sqlite"
    assert store_command("merge", new, path, path, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {str(path): {"added": 0, "present": 51, "different": 0}}
    with PredictionStore(path) as store, PredictionStore(new) as other:
        other.put_many("model A", [(query_key("more", []), 0)])
        store.put_many("model A", [(query_key("more", []), 1)])
    assert store_command("merge", new, path) == 0
    assert (
        capsys.readouterr().out == f"{path}: 0 answers added, 51 were there, 1 differ from those there (not copied)\n"
    )


def test_a_refused_run_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain function needs --model-name with a store."""
    Path("plain_function.py").write_text("def f(prompt, label_space):\n    return 0\n", "utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for more in (
        ["run", "normal"],
        ["run", "suite"],
        ["run", "normal", "--method", "all"],
        ["run", "normal", "--k=2,4"],
    ):
        words = [*more, "--datasets", "mini", "--model", "plain_function:f", "--store", "refused.sqlite"]
        assert main(words) == 2
        assert not list(Path().glob("refused.sqlite*"))

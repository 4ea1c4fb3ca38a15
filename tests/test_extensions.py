"""Extension points: entries of other packages by name, in Python and on the command line, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, load, load_dataset, load_kernel
from StaICC.benchmarks.builtin import BENCHMARKS, make_benchmark
from StaICC.benchmarks.rebuilding import rebuild
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.datasets.dataset import Dataset, dataset_registry
from StaICC.datasets.source import FileSource
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, PluginError, StaICCError, UnknownNameError
from StaICC.inference.identity import identity_of
from StaICC.kernels.registry import KERNELS
from StaICC.methods.catalogue import METHODS
from StaICC.metrics.metric_set import METRICS
from StaICC.registry import GROUPS, PluginWarning, Registry

ROOT = Path(__file__).parents[1]
PLUGIN = Path(__file__).parent / "plugin"
ORIGIN = "staicc-example-plugin-1.2"
REGISTRIES: dict[str, Callable[[], Registry[Any]]] = {
    "kernels": lambda: KERNELS,
    "methods": lambda: METHODS,
    "datasets": dataset_registry,
    "benchmarks": lambda: BENCHMARKS,
    "metrics": lambda: METRICS,
}


def install(site: Path, name: str, version: str, points: dict[str, dict[str, str]], **modules: str) -> None:
    """Write what an installer writes: modules, and a ``.dist-info`` folder with the entry points."""
    site.mkdir(exist_ok=True)
    for module, code in modules.items():
        (site / f"{module}.py").write_text(code, encoding="utf-8")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        line for group, items in points.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in items.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def plugin_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in package as installed; no network is needed."""
    site = tmp_path_factory.mktemp("installed") / "site"
    text = (PLUGIN / "pyproject.toml").read_text("utf-8")
    points = {}
    for group, body in re.findall(r'^\[project\.entry-points\."([\w.]+)"\]\n((?:.+\n)+)', text, re.MULTILINE):
        points[group] = dict(re.findall(r'^([\w-]+) = "(.+)"$', body, re.MULTILINE))
    assert sorted(points) == sorted(GROUPS)
    version = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    assert version is not None
    install(site, "staicc-example-plugin", version[1], points)
    shutil.copytree(PLUGIN / "staicc_example", site / "staicc_example", ignore=shutil.ignore_patterns("__pycache__"))
    return site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder on the search path; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def plugin(plugin_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(plugin_site)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "staicc_example"]:
        del sys.modules[name]


def letters(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0 + prompt.count(label) for label in label_space]


# -- the plug-in package, in Python


@pytest.mark.usefixtures("plugin")
def test_one_of_each_kind_in_python(tmp_path: Path) -> None:
    kernel = load_kernel("label_counts:0.5")
    kernels = kernel, load_kernel("label_counts"), load_kernel("Label-Counts", smoothing=2.0)
    assert [own.smoothing for own in kernels] == [0.5, 1.0, 2.0]
    reference = "staicc_example.kernel:LabelCounts"
    by_name = "label_counts;smoothing=4", f"{reference};smoothing=4", f"{reference}:4", "label_counts:4"
    assert [load_kernel(name).smoothing for name in by_name] == [4, 4, 4.0, 4.0]
    data = load_dataset("example_tickets")
    assert (len(data.table), data.card.label_space) == (96, ("bug", "wish", "praise"))
    assert isinstance(data.source, FileSource)
    benchmark = make_benchmark("symbol-labels", datasets=["example_tickets"], metrics="standard+brier_score", limit=8)
    result = benchmark(kernel)
    assert set(result["Averaged results"]) == {"loss"}
    assert 0 <= result["Divided results"]["example_tickets"]["names"]["brier_score"] <= 2
    fields = result.signature.fields
    assert (fields["benchmark"], fields["datasets"]) == (f"Symbol_labels@{ORIGIN}", f"example_tickets@{ORIGIN}")
    assert re.fullmatch(rf"standard\+brier_score@{re.escape(ORIGIN)}-[0-9a-f]{{12}}", fields["metrics"])
    result.save(tmp_path / "result.json")
    checks = verify(load(tmp_path / "result.json"), benchmark)
    assert [check for check in checks if check.same is False] == []


@pytest.mark.usefixtures("plugin")
def test_the_distribution_is_part_of_the_identity(plugin_site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_kernel("label_counts")
    assert identity_of(kernel).who == {"model": "label counts, version 1", "distribution": "staicc-example-plugin 1.2"}
    assert "distribution" not in identity_of(load_kernel("ppm")).who
    before = identity_of(kernel).digest
    assert {identity_of(load_kernel("label_counts")).digest for _ in range(2)} == {before}
    assert identity_of(load_kernel("label_counts:2")).digest != before
    other = plugin_site.parent / "other"
    if not other.exists():
        points = {"staicc.kernels": {"label_counts": "staicc_example.kernel:LabelCounts"}}
        install(other, "staicc-example-plugin", "1.3", points)
        shutil.copytree(plugin_site / "staicc_example", other / "staicc_example")
    monkeypatch.setattr(sys, "path", [str(other), *(path for path in sys.path if path != str(plugin_site))])
    assert identity_of(load_kernel("label_counts")).who["distribution"] == "staicc-example-plugin 1.3"
    assert identity_of(load_kernel("label_counts")).digest != before


# -- the plug-in package, on the command line


@pytest.fixture
def command(
    plugin: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """A function that runs a command where the plug-in is installed, and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAICC_OFFLINE", "1")

    def run(line: str) -> str:
        assert main(line.split()) == 0
        return "".join(capsys.readouterr())

    return run


def test_one_of_each_kind_on_the_command_line(command: Callable[[str], str]) -> None:
    options = "--model label_counts:2 --datasets example_tickets --limit 4 --json result.json"
    command(f"run symbol-labels {options} --metrics standard+brier_score --store s.sqlite")
    signature = str(load("result.json").signature)
    assert [name for name in ("Symbol_labels", "standard+brier_score") if f"{name}@{ORIGIN}" not in signature] == []
    command(f"run normal {options} --overwrite --method sharpened --method-option exponent=3.0")
    assert load("result.json").signature.fields["method"] == f"sharpened@{ORIGIN} paper exponent=3.0"
    options = "--model staicc_example.kernel:LabelCounts --model-option smoothing=4"
    command(f"run normal {options} --datasets mini --limit 4 --json options.json")
    (predictor,) = load("options.json").provenance.predictors
    assert predictor.how == {"smoothing": "4"}
    options = "--model staicc_example.kernel:LabelCounts --datasets staicc_example.data:tickets --limit 4"
    command(f"run staicc_example.benchmark:SymbolLabels {options} --metrics accuracy+staicc_example.metric:brier_score")
    assert "bug" in command("prompts symbol-labels --datasets example_tickets --limit 1")


def test_the_commands_of_the_page(command: Callable[[str], str]) -> None:
    """They need the plug-in, so the test of all pages cannot run them."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    commands = re.findall(r"^\$ python -m StaICC (.+)$", page, re.MULTILINE)
    assert len(commands) > 2
    for line in commands:
        command(line)
    assert re.findall(r"^\[project\.entry[^#`]+", page, re.MULTILINE)
    for line in re.search(r"```toml\n(.+?)```", page, re.DOTALL)[1].splitlines():  # type: ignore[index]
        assert line in (PLUGIN / "pyproject.toml").read_text("utf-8").splitlines(), line


# -- conflicts and broken plug-ins


@pytest.mark.parametrize("kind", REGISTRIES)
def test_built_in_names_cannot_be_taken(kind: str, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = REGISTRIES[kind]()
    victim = next(iter(entries))
    spelled = victim.upper().replace("-", "_")
    install(site, "thief", "6.6", {f"staicc.{kind}": {spelled: "thief:stolen"}}, thief="raise SystemExit('imported')\n")
    assert entries.knows(victim)
    with pytest.warns(PluginWarning, match=rf"thief 6\.6 has a {entries.kind} '{spelled}'; the name is built in"):
        assert not entries.knows("no such name")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a built-in name does not read the entry points
        if kind != "datasets":  # its first one needs the data pack
            assert (entries.find(spelled).origin, entries.find(spelled).name) == ("", victim)
    (row,) = [row for row in entries.listing() if row.origin.startswith("thief")]
    assert (row.origin, "built in" in row.problem) == ("thief 6.6", True)
    assert main(["show", kind, "--json"]) == 1
    (shown,) = [row for row in json.loads(capsys.readouterr().out)[kind] if row["origin"] == "thief 6.6"]
    assert not any(shown.get(key) for key in ("description", "options", "paper")), "it is not the built-in one"
    assert "thief" not in sys.modules


@pytest.mark.parametrize("kind", REGISTRIES)
def test_two_plugins_with_one_name_are_an_error_that_names_both(kind: str, site: Path) -> None:
    for name in ("first", "second"):
        install(site, name, "1.0", {f"staicc.{kind}": {"mine": f"{name}_module:value"}})
    entries = REGISTRIES[kind]()
    with pytest.raises(PluginError, match=r"'mine': first 1\.0 and second 1\.0; .*first_module:value"):
        entries.find("mine")
    listed = [row for row in entries.listing() if row.origin.startswith(("first", "second"))]
    assert [row.problem != "" for row in listed] == [True, True]
    with pytest.raises(UnknownNameError):  # others are not disturbed
        entries.find("another name")


BROKEN = {
    "syntax": ("value = (", "SyntaxError"),
    "missing": ("import no_such_package_at_all", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
    "raises": ("raise RuntimeError('no licence server')", "RuntimeError: no licence server"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "empty": ("", "AttributeError"),
    "wrong": ("value = 3", "cannot be used"),
}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_broken_plugin_is_one_clear_error(kind: str, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    modules = {f"broken_{kind}_{fault}": code for fault, (code, _) in BROKEN.items()}
    points = {fault: f"broken_{kind}_{fault}:value" for fault in BROKEN}
    install(site, "broken-thing", "0.3", {f"staicc.{kind}": points}, **modules)
    entries = REGISTRIES[kind]()
    for fault, (_, reason) in BROKEN.items():
        with pytest.raises(PluginError, match=rf"{entries.kind} '{fault}' of the plug-in broken-thing 0\.3") as caught:
            entries.find(fault)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value) or fault == "syntax"
        assert caught.value.__cause__ is not None
    assert main(["show", kind]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("broken-thing 0.3") == len(BROKEN)
    assert next(iter(entries)) in shown.out  # the others are listed


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ("no_such_module:name", UnknownNameError, "There is no module 'no_such_module' either"),
        ("json.no_such:name", UnknownNameError, "There is no module 'json.no_such' either"),
        ("json:no_such_name", PluginError, "AttributeError"),
        ("math:pi", PluginError, "expected"),
    ],
)
@pytest.mark.parametrize("kind", REGISTRIES)
def test_references_that_lead_nowhere(kind: str, reference: str, error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=message):
        REGISTRIES[kind]().find(reference)


OWN_KERNEL = """
from StaICC import Identity


class Mine:
    def __init__(self, text="", **options):
        self.made_of = (text, options)

    @classmethod
    def from_spec(cls, text, **options):
        return cls(text, **options)

    def __call__(self, prompt, label_space):
        return [1.0 for label in label_space]

    def identity(self):
        text, options = self.made_of
        settings = {name: str(value) for name, value in options.items() if name != "forgotten"}
        return Identity({"kernel": "Mine", "text": text}, settings)


MINE = Mine()
"""


@pytest.mark.parametrize(
    ("name", "made_of"),
    [
        ("own_kernel:MINE", ("", {})),
        ("own_kernel:Mine", ("Mine", {})),
        ("own_kernel:Mine:gpt2", ("Mine:gpt2", {})),
        ("own_kernel:Mine;smoothing=0.5", ("Mine", {"smoothing": 0.5})),
        ("own_kernel:Mine:gpt2;exact=true;form=long", ("Mine:gpt2", {"exact": True, "form": "long"})),
    ],
)
def test_kernels_by_reference_as_the_page_of_kernels_says(name: str, made_of: tuple[str, Any], site: Path) -> None:
    (site / "own_kernel.py").write_text(OWN_KERNEL, encoding="utf-8")
    assert load_kernel(name).made_of == made_of


def test_an_option_that_the_identity_lacks_is_refused(site: Path) -> None:
    """Results with other values would have equal signatures, and share the predictions in a store."""
    (site / "own_kernel.py").write_text(OWN_KERNEL, encoding="utf-8")
    install(site, "a", "1", {"staicc.kernels": {"own": "own_kernel:Mine"}})
    for name in ("own_kernel:Mine", "own"):
        with pytest.raises(ArgumentError, match=r"option forgotten of .*: its identity does not have it"):
            load_kernel(f"{name};smoothing=1;forgotten=2")


def test_names_from_files_import_nothing(site: Path) -> None:
    made = "from StaICC import Dataset; made = Dataset.from_rows([('a', 'x'), ('b', 'y')], name='mine')"
    install(site, "a", "1", {"staicc.datasets": {"other": "other_data:made"}}, other_data=made)
    with pytest.raises(PluginError, match="calls itself 'mine'"):
        REGISTRIES["datasets"]().find("other")
    (site / "trap.py").write_text("raise AssertionError('imported')\n", encoding="utf-8")
    with pytest.raises(UnknownNameError, match="import no module"):
        load_dataset("trap:rows", references=False)
    result = Normal(datasets=["mini"], limit=2)(letters)
    result.details = {"trap:rows": result.details["mini"]}  # as a saved file could say
    with pytest.raises(ArgumentError, match="pass the benchmark itself"):
        rebuild(result)
    assert "trap" not in sys.modules


# -- sources of rows


LINES = b'{"text": "a", "label": "x"}\n{"text": "b", "label": 1}\n{"text": "c", "label": "y"}\n'


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(LINES)
    source = FileSource(path, hashlib.sha256(LINES).hexdigest())
    dataset = Dataset.from_rows(source, name="mine", label_space=["x", "y"])
    assert [(row.texts, row.label) for row in dataset.table] == [(("a",), 0), (("b",), 1), (("c",), 1)]
    assert dataset.source is source
    assert Dataset.from_rows([("a", 0)], name="mine", label_space=["x", "y"]).source is None
    path.write_bytes(LINES + b"\n")
    with pytest.raises(DataDamagedError, match=r"rows\.jsonl is not the pinned file"):
        Dataset.from_rows(source, name="mine", label_space=["x", "y"])
    path.unlink()
    with pytest.raises(DataMissingError, match=r"rows\.jsonl"):
        Dataset.from_rows(source, name="mine", label_space=["x", "y"])

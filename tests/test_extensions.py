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
from typing import Any, NamedTuple

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


def install(site: Path, name: str, version: str, entry_points: dict[str, dict[str, str]], **modules: str) -> None:
    """Write what an installer writes: modules with their code, and a ``.dist-info`` folder with the entry points.

    Args:
        site: The folder of installed packages.
        name: The name of the distribution.
        version: Its version.
        entry_points: For each group, such as ``staicc.kernels``, references by the names of the entries.
        modules: The code of each module.
    """
    site.mkdir(exist_ok=True)
    for module, code in modules.items():
        (site / f"{module}.py").write_text(code, encoding="utf-8")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = []
    for group, references in entry_points.items():
        lines.append(f"[{group}]")
        lines += [f"{entry} = {reference}" for entry, reference in references.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def plugin_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in package as installed; no network is needed."""
    site = tmp_path_factory.mktemp("installed") / "site"
    pyproject = (PLUGIN / "pyproject.toml").read_text("utf-8")
    entry_points = {}
    for group, lines in re.findall(r'^\[project\.entry-points\."([\w.]+)"\]\n((?:.+\n)+)', pyproject, re.MULTILINE):
        entry_points[group] = dict(re.findall(r'^([\w-]+) = "(.+)"$', lines, re.MULTILINE))
    assert sorted(entry_points) == sorted(GROUPS)
    (version,) = re.findall(r'^version = "(.+)"$', pyproject, re.MULTILINE)
    install(site, "staicc-example-plugin", version, entry_points)
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
    """The plug-in package can be imported; its modules are forgotten after the test."""
    monkeypatch.syspath_prepend(plugin_site)
    yield
    for name in list(sys.modules):
        if name.partition(".")[0] == "staicc_example":
            del sys.modules[name]


def counts_labels(prompt: str, label_space: list[str]) -> list[float]:
    """A model whose scores are how often each label is in the prompt, and one more."""
    return [1.0 + prompt.count(label) for label in label_space]


# -- the plug-in package, in Python


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("name", "smoothing"),
    [
        ("label_counts", 1.0),
        ("label_counts:0.5", 0.5),
        ("label_counts;smoothing=4", 4),
        ("staicc_example.kernel:LabelCounts:4", 4.0),
        ("staicc_example.kernel:LabelCounts;smoothing=4", 4),
    ],
)
def test_a_kernel_of_a_plugin_is_loaded_by_name_or_reference_with_its_option(name: str, smoothing: float) -> None:
    assert load_kernel(name).smoothing == smoothing


@pytest.mark.usefixtures("plugin")
def test_a_kernel_of_a_plugin_takes_its_option_as_a_keyword_and_any_spelling_of_its_name() -> None:
    assert load_kernel("Label-Counts", smoothing=2.0).smoothing == 2.0


@pytest.mark.usefixtures("plugin")
def test_a_data_set_of_a_plugin_is_loaded_by_name() -> None:
    data = load_dataset("example_tickets")

    assert len(data.table) == 96
    assert data.card.label_space == ("bug", "wish", "praise")
    assert isinstance(data.source, FileSource)


@pytest.mark.usefixtures("plugin")
def test_a_benchmark_of_a_plugin_has_the_scores_of_a_metric_of_a_plugin() -> None:
    benchmark = make_benchmark("symbol-labels", datasets=["example_tickets"], metrics="standard+brier_score", limit=8)

    result = benchmark(load_kernel("label_counts:0.5"))

    assert set(result.averaged) == {"loss"}
    assert 0 <= result.divided["example_tickets"]["names"]["brier_score"] <= 2


@pytest.mark.usefixtures("plugin")
def test_the_signature_names_the_plugin_of_a_benchmark_a_data_set_and_a_metric() -> None:
    benchmark = make_benchmark("symbol-labels", datasets=["example_tickets"], metrics="standard+brier_score", limit=8)

    fields = benchmark(load_kernel("label_counts:0.5")).signature.fields

    assert fields["benchmark"] == f"Symbol_labels@{ORIGIN}"
    assert fields["datasets"] == f"example_tickets@{ORIGIN}"
    assert re.fullmatch(rf"standard\+brier_score@{re.escape(ORIGIN)}-[0-9a-f]{{12}}", fields["metrics"])


@pytest.mark.usefixtures("plugin")
def test_a_saved_result_of_a_plugin_is_verified(tmp_path: Path) -> None:
    benchmark = make_benchmark("symbol-labels", datasets=["example_tickets"], metrics="standard+brier_score", limit=8)
    benchmark(load_kernel("label_counts:0.5")).save(tmp_path / "result.json")

    findings = verify(load(tmp_path / "result.json"), benchmark)

    for finding in findings:
        assert finding.same is not False


@pytest.mark.usefixtures("plugin")
def test_the_identity_of_a_kernel_of_a_plugin_names_its_distribution() -> None:
    who = identity_of(load_kernel("label_counts")).who

    assert who == {"model": "label counts, version 1", "distribution": "staicc-example-plugin 1.2"}
    assert "distribution" not in identity_of(load_kernel("ppm")).who, "a built-in kernel"


@pytest.mark.usefixtures("plugin")
def test_equal_kernels_of_a_plugin_have_equal_identities_and_other_options_another_one() -> None:
    digest = identity_of(load_kernel("label_counts")).digest

    assert identity_of(load_kernel("label_counts")).digest == digest
    assert identity_of(load_kernel("label_counts:2")).digest != digest


@pytest.mark.usefixtures("plugin")
def test_another_version_of_a_plugin_has_another_identity(
    plugin_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity_of_1_2 = identity_of(load_kernel("label_counts"))
    site_of_1_3 = tmp_path / "site"
    entry_points = {"staicc.kernels": {"label_counts": "staicc_example.kernel:LabelCounts"}}
    install(site_of_1_3, "staicc-example-plugin", "1.3", entry_points)
    shutil.copytree(plugin_site / "staicc_example", site_of_1_3 / "staicc_example")
    other_paths = [path for path in sys.path if path != str(plugin_site)]
    monkeypatch.setattr(sys, "path", [str(site_of_1_3), *other_paths])

    identity_of_1_3 = identity_of(load_kernel("label_counts"))

    assert identity_of_1_3.who["distribution"] == "staicc-example-plugin 1.3"
    assert identity_of_1_3.digest != identity_of_1_2.digest


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


def test_the_command_line_runs_a_benchmark_a_kernel_and_a_metric_of_a_plugin(command: Callable[[str], str]) -> None:
    command(
        "run symbol-labels --model label_counts:2 --datasets example_tickets --limit 4 "
        "--metrics standard+brier_score --store s.sqlite --json result.json"
    )

    signature = str(load("result.json").signature)
    assert f"Symbol_labels@{ORIGIN}" in signature
    assert f"standard+brier_score@{ORIGIN}" in signature


def test_the_command_line_runs_a_method_of_a_plugin_with_its_option(command: Callable[[str], str]) -> None:
    command(
        "run normal --model label_counts:2 --datasets example_tickets --limit 4 "
        "--method sharpened --method-option exponent=3.0 --json result.json"
    )

    assert load("result.json").signature.fields["method"] == f"sharpened@{ORIGIN} paper exponent=3.0"


def test_the_command_line_passes_options_to_a_kernel_by_reference(command: Callable[[str], str]) -> None:
    command(
        "run normal --model staicc_example.kernel:LabelCounts --model-option smoothing=4 "
        "--datasets mini --limit 4 --json result.json"
    )

    (predictor,) = load("result.json").provenance.predictors
    assert predictor.how == {"smoothing": "4"}


def test_the_command_line_takes_all_kinds_by_reference(command: Callable[[str], str]) -> None:
    command(
        "run staicc_example.benchmark:SymbolLabels --model staicc_example.kernel:LabelCounts "
        "--datasets staicc_example.data:tickets --limit 4 --metrics accuracy+staicc_example.metric:brier_score"
    )


def test_the_command_line_writes_prompts_of_a_benchmark_of_a_plugin(command: Callable[[str], str]) -> None:
    assert "bug" in command("prompts symbol-labels --datasets example_tickets --limit 1")


def test_the_commands_of_the_page_about_plugins_run(command: Callable[[str], str]) -> None:
    """The commands need the plug-in, so the test of all pages cannot run them."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    lines = re.findall(r"^\$ python -m StaICC (.+)$", page, re.MULTILINE)
    assert len(lines) > 2, "the search finds no commands"
    for line in lines:
        command(line)


def test_the_entry_points_on_the_page_about_plugins_are_those_of_the_plugin() -> None:
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    first_block_of_toml, *_ = re.findall(r"```toml\n(.+?)```", page, re.DOTALL)
    assert "[project.entry" in first_block_of_toml
    lines_of_plugin = (PLUGIN / "pyproject.toml").read_text("utf-8").splitlines()
    for line in first_block_of_toml.splitlines():
        assert line in lines_of_plugin


# -- conflicts and broken plug-ins


class Thief(NamedTuple):
    """An installed plug-in with the name of a built-in entry, in capitals; its module must not be imported."""

    kind: str
    entries: Any
    built_in_name: str
    name_of_thief: str


@pytest.fixture(params=list(REGISTRIES))
def thief(request: pytest.FixtureRequest, site: Path) -> Iterator[Thief]:
    """A plug-in with the name of the first built-in entry of each kind. Its module is not imported by any test."""
    kind = request.param
    entries = REGISTRIES[kind]()
    built_in_name = next(iter(entries))
    name_of_thief = built_in_name.upper().replace("-", "_")
    module = "raise SystemExit('imported')\n"
    install(site, "thief", "6.6", {f"staicc.{kind}": {name_of_thief: "thief:stolen"}}, thief=module)
    yield Thief(kind, entries, built_in_name, name_of_thief)
    assert "thief" not in sys.modules


def test_a_built_in_name_is_found_without_reading_plugins(thief: Thief) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # there is one when plug-ins are read
        assert thief.entries.knows(thief.built_in_name)
        if thief.kind != "datasets":  # its first one needs the data pack
            found = thief.entries.find(thief.name_of_thief)
            assert found.origin == ""
            assert found.name == thief.built_in_name


def test_a_plugin_with_a_built_in_name_is_a_warning(thief: Thief) -> None:
    message = rf"thief 6\.6 has a {thief.entries.kind} '{thief.name_of_thief}'; the name is built in"

    with pytest.warns(PluginWarning, match=message):
        assert not thief.entries.knows("no such name")


@pytest.mark.filterwarnings("ignore::StaICC.registry.PluginWarning")
def test_a_plugin_with_a_built_in_name_is_listed_with_its_problem(thief: Thief) -> None:
    (row,) = [row for row in thief.entries.listing() if row.origin.startswith("thief")]

    assert row.origin == "thief 6.6"
    assert "built in" in row.problem


@pytest.mark.filterwarnings("ignore::StaICC.registry.PluginWarning")
def test_a_plugin_with_a_built_in_name_is_shown_without_the_facts_of_the_built_in_entry(
    thief: Thief, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", thief.kind, "--json"]) == 1

    rows = json.loads(capsys.readouterr().out)[thief.kind]
    (shown,) = [row for row in rows if row["origin"] == "thief 6.6"]
    for fact in ("description", "options", "paper"):
        assert not shown.get(fact), fact


@pytest.mark.parametrize("kind", REGISTRIES)
def test_two_plugins_with_one_name_are_an_error_that_names_both(kind: str, site: Path) -> None:
    install(site, "first", "1.0", {f"staicc.{kind}": {"mine": "first_module:value"}})
    install(site, "second", "1.0", {f"staicc.{kind}": {"mine": "second_module:value"}})
    entries = REGISTRIES[kind]()

    with pytest.raises(PluginError, match=r"'mine': first 1\.0 and second 1\.0; .*first_module:value"):
        entries.find("mine")
    problems = [row.problem for row in entries.listing() if row.origin in ("first 1.0", "second 1.0")]
    assert len(problems) == 2
    assert "" not in problems


@pytest.mark.parametrize("kind", REGISTRIES)
def test_two_plugins_with_one_name_do_not_disturb_other_names(kind: str, site: Path) -> None:
    install(site, "first", "1.0", {f"staicc.{kind}": {"mine": "first_module:value"}})
    install(site, "second", "1.0", {f"staicc.{kind}": {"mine": "second_module:value"}})

    with pytest.raises(UnknownNameError):
        REGISTRIES[kind]().find("another name")


BROKEN = {
    "syntax": ("value = (", "SyntaxError"),
    "missing": ("import no_such_package_at_all", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
    "raises": ("raise RuntimeError('no licence server')", "RuntimeError: no licence server"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "empty": ("", "AttributeError"),
    "wrong": ("value = 3", "cannot be used"),
}


@pytest.mark.parametrize(("fault", "code", "reason"), [(fault, *case) for fault, case in BROKEN.items()], ids=BROKEN)
@pytest.mark.parametrize("kind", REGISTRIES)
def test_the_error_of_a_broken_plugin_names_it_with_the_reason(
    kind: str, fault: str, code: str, reason: str, site: Path
) -> None:
    module = f"broken_{kind}_{fault}"
    entry_points = {f"staicc.{kind}": {"mine": f"{module}:value"}}
    install(site, "broken-thing", "0.3", entry_points, **{module: code})
    entries = REGISTRIES[kind]()

    with pytest.raises(PluginError, match=rf"{entries.kind} 'mine' of the plug-in broken-thing 0\.3") as caught:
        entries.find("mine")

    message = str(caught.value)
    assert reason in message
    assert caught.value.__cause__ is not None
    if fault != "syntax":  # Python's message about a syntax error has several lines
        assert "\n" not in message


@pytest.mark.parametrize("kind", REGISTRIES)
def test_broken_plugins_are_listed_with_the_entries_that_work(
    kind: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = {f"broken_{kind}_{fault}": code for fault, (code, _) in BROKEN.items()}
    points = {fault: f"broken_{kind}_{fault}:value" for fault in BROKEN}
    install(site, "broken-thing", "0.3", {f"staicc.{kind}": points}, **modules)

    assert main(["show", kind]) == 1

    printed = capsys.readouterr()
    built_in_name = next(iter(REGISTRIES[kind]()))
    assert printed.err.count("broken-thing 0.3") == len(BROKEN)
    assert built_in_name in printed.out


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


@pytest.mark.parametrize("name", ["own_kernel:Mine", "own"], ids=["by reference", "by name"])
def test_an_option_that_the_identity_lacks_is_refused(site: Path, name: str) -> None:
    """Results with other values would have equal signatures, and share the predictions in a store."""
    (site / "own_kernel.py").write_text(OWN_KERNEL, encoding="utf-8")
    install(site, "a", "1", {"staicc.kernels": {"own": "own_kernel:Mine"}})

    with pytest.raises(ArgumentError, match=r"option forgotten of .*: its identity does not have it"):
        load_kernel(f"{name};smoothing=1;forgotten=2")


def test_a_data_set_of_a_plugin_must_have_the_name_of_its_entry(site: Path) -> None:
    code = "from StaICC import Dataset; data = Dataset.from_rows([('a', 'x'), ('b', 'y')], name='mine')"
    install(site, "a", "1", {"staicc.datasets": {"other": "other_data:data"}}, other_data=code)

    with pytest.raises(PluginError, match="calls itself 'mine'"):
        REGISTRIES["datasets"]().find("other")


@pytest.fixture
def trap(site: Path) -> Iterator[None]:
    """A module that must not be imported."""
    (site / "trap.py").write_text("raise AssertionError('imported')\n", encoding="utf-8")
    yield
    assert "trap" not in sys.modules


@pytest.mark.usefixtures("trap")
def test_a_name_from_a_file_imports_no_module() -> None:
    with pytest.raises(UnknownNameError, match="import no module"):
        load_dataset("trap:rows", references=False)


@pytest.mark.usefixtures("trap")
def test_a_data_set_in_a_saved_result_imports_no_module() -> None:
    result = Normal(datasets=["mini"], limit=2)(counts_labels)
    result.details = {"trap:rows": result.details["mini"]}  # as a saved file could say

    with pytest.raises(ArgumentError, match="pass the benchmark itself"):
        rebuild(result)


# -- sources of rows


LINES = b'{"text": "a", "label": "x"}\n{"text": "b", "label": 1}\n{"text": "c", "label": "y"}\n'


@pytest.fixture
def pinned_file(tmp_path: Path) -> FileSource:
    """The file of the lines above with its SHA-256."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(LINES)
    return FileSource(path, hashlib.sha256(LINES).hexdigest())


def test_rows_are_read_from_a_pinned_file(pinned_file: FileSource) -> None:
    """A label is a name, or its index."""
    dataset = Dataset.from_rows(pinned_file, name="mine", label_space=["x", "y"])

    assert [(row.texts, row.label) for row in dataset.table] == [(("a",), 0), (("b",), 1), (("c",), 1)]
    assert dataset.source is pinned_file


def test_rows_in_python_have_no_source() -> None:
    assert Dataset.from_rows([("a", 0)], name="mine", label_space=["x", "y"]).source is None


def test_a_changed_file_is_not_the_pinned_one(pinned_file: FileSource, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(LINES + b"\n")

    with pytest.raises(DataDamagedError, match=r"rows\.jsonl is not the pinned file"):
        Dataset.from_rows(pinned_file, name="mine", label_space=["x", "y"])


def test_a_missing_pinned_file_is_named(pinned_file: FileSource, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").unlink()

    with pytest.raises(DataMissingError, match=r"rows\.jsonl"):
        Dataset.from_rows(pinned_file, name="mine", label_space=["x", "y"])

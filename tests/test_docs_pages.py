"""What pages and project files say of the library: names, pictures, citation, changelog."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import StaICC
import StaICC.cli
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.comparing.citing import find_work
from StaICC.metrics.metric_set import METRICS
from StaICC.report.figure_kinds import KINDS
from StaICC.results.signature import FIELDS
from tests.conftest import NOT_QUICK
from tests.test_docs_blocks import PYTHON, environment

ROOT = Path(__file__).parents[1]
README, CHANGELOG, CONTRIBUTING, PYPROJECT = (
    (ROOT / name).read_text("utf-8") for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
)
ARCHITECTURE, GALLERY, REPORTS = (
    (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("architecture", "gallery", "reports")
)


def test_benchmarks_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"`run ([a-z-]+)`", README))
    assert named
    assert named <= {*BENCHMARKS}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_is_in_the_tables_of_the_readme_and_of_its_page(benchmark: str) -> None:
    assert f"`run {benchmark}`" in README
    assert f"`{benchmark}`" in (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_defined_on_its_page(metric: str) -> None:
    assert f"`{metric}`" in (ROOT / "docs" / "metrics.md").read_text("utf-8")


def test_the_parts_of_a_signature_are_explained_in_their_order() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    table = page.split("| part | what it says | example |")[1].split("\n\n")[0]

    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == FIELDS


def test_files_that_the_page_names_exist() -> None:
    """A path begins in the repository, in the package, or in a folder of the package."""
    paths = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", ARCHITECTURE))
    assert len(paths) > 15, "the search finds no paths"
    for path in paths:
        folders = [ROOT, ROOT / "StaICC", *(ROOT / "StaICC").iterdir()]
        assert [folder for folder in folders if (folder / path).exists()] != [], path


def topics_by_file() -> dict[str, str]:
    """Return the first paragraph of the docstring of each file of the package, as Markdown in one line."""
    package = ROOT / "StaICC"
    topics = {}
    for path in package.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            first_paragraph = " ".join(docstring.split("\n\n")[0].split())
            topic = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", first_paragraph).replace("``", "`")
            topics[path.relative_to(package).as_posix()] = topic
    return topics


def test_every_file_of_the_package_is_listed_once_with_its_topic() -> None:
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+) \|$", ARCHITECTURE, re.MULTILINE)
    assert dict(rows) == topics_by_file()
    assert len(rows) == len(dict(rows)), "a file is listed twice"


def test_a_file_has_one_topic_which_needs_no_and() -> None:
    assert {file: topic for file, topic in topics_by_file().items() if " and " in topic} == {}


def test_the_curve_is_that_of_the_program(tmp_path: Path) -> None:
    (block,) = (block for block in PYTHON if block.page.name == "gallery.md")
    command = [sys.executable, "-c", block.code]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True)
    assert (tmp_path / "shots.svg").read_bytes() == (ROOT / "docs" / "assets" / "shots.svg").read_bytes()


def test_every_picture_is_there_and_small() -> None:
    shown = re.findall(r"!\[[^]]+\]\((assets/[\w.]+)\)", GALLERY)
    assert {f"assets/{path.name}" for path in (ROOT / "docs" / "assets").glob("*.webp")} <= {*shown}
    for name in shown:
        file = ROOT / "docs" / name
        assert file.stat().st_size < 100_000


def first_table_of_reports() -> str:
    """Return the lines of the table above the first section of the page about reports."""
    lines = REPORTS.split("## Reports")[0].splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def test_the_commands_in_the_table_of_reports_exist() -> None:
    for command in re.findall(r"`([a-z]+(?: [^`]*)?)`", first_table_of_reports()):
        assert command.split()[0] in StaICC.cli._COMMANDS, command


def test_the_modules_and_functions_in_the_table_of_reports_exist() -> None:
    for name in re.findall(r"`(StaICC\.[\w.]+)`", first_table_of_reports()):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # it is a function of a module
            module, _, function = name.rpartition(".")
            assert hasattr(importlib.import_module(module), function), name


def test_every_kind_of_figure_is_named() -> None:
    table = REPORTS.split("| kind | figure |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == {*KINDS, "run_all", "k"}


def test_the_functions_of_figures_are_listed_in_the_order_of_the_table_of_kinds() -> None:
    _, _, table_and_rest = REPORTS.partition("| kind | figure |")
    table, _, text_after_table = table_and_rest.partition("\n\n")
    kinds = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)

    words = " ".join(text_after_table.split())
    _, _, list_of_functions = words.partition("in the order of the table: ")
    functions = re.findall(r"`(\w+)`", list_of_functions.partition(".")[0])

    assert functions == [KINDS[kind].__name__ for kind in kinds]
    for name in functions:
        assert getattr(StaICC, name) in KINDS.values()


def test_exit_statuses_are_those_of_the_help() -> None:
    reported = re.findall(r"^\| (\d+) \| (.+) \|$", REPORTS, flags=re.MULTILINE)
    for status, meaning in reported:
        assert re.search(rf"^  {status} +{re.escape(meaning)}$", StaICC.cli._EPILOG, re.MULTILINE), status
    assert len(reported) == 6


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return pytest.importorskip("yaml").safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_citation_has_what_the_format_requires(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["authors"] == [{"name": "StaICC contributors"}]
    assert re.search(rf'^license = "{citation["license"]}"$', PYPROJECT, re.MULTILINE)
    assert citation["version"] == StaICC.__version__


def test_preferred_citation_is_the_paper_that_cite_prints(citation: dict[str, Any]) -> None:
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors", "year"} <= set(paper)
    printed = dict(re.findall(r"(\w+) += \{(.*)\},?$", find_work("StaICC").bibtex, flags=re.MULTILINE))
    assert paper["title"] == printed["title"].replace("{", "").replace("}", "")
    names = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    assert " and ".join(names) == printed["author"]
    assert (paper["journal"], str(paper["year"])) == (printed["journal"], printed["year"])


def test_changelog_begins_with_this_version(citation: dict[str, Any]) -> None:
    unreleased = StaICC.__version__.endswith(".dev0")
    assert CHANGELOG.startswith("# Changelog")
    first = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)[0]
    if unreleased:
        assert first == "Unreleased"
        assert f"version in work is {StaICC.__version__.removesuffix('.dev0')}" in CHANGELOG
        assert "date-released" not in citation
    else:
        assert first == f"{StaICC.__version__} - {citation['date-released'].isoformat()}"


@pytest.mark.parametrize("text", [CHANGELOG, CONTRIBUTING], ids=["CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_and_paths_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:StaICC|tests|docs|examples|\.ci)/[\w./]*)`", text):
        assert path == "examples/NAME.py" or (ROOT / path).exists(), path


CI = sorted(f".ci/{path.name}" for path in (ROOT / ".ci").iterdir())


@pytest.mark.parametrize("name", [*CI, ".pre-commit-config.yaml", "pyproject.toml"])
def test_tests_that_are_named_exist(name: str) -> None:
    for path in re.findall(r"tests/[\w/]+\.py", (ROOT / name).read_text("utf-8")):
        assert (ROOT / path).exists(), path


def test_what_quick_leaves_out_exists() -> None:
    for name in NOT_QUICK:
        assert (ROOT / "tests" / name).exists(), name

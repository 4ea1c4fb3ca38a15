"""Code of 0.1.1, unchanged, against the released wheel and against this library.

The wheel is an oracle: it runs in a process of its own. Values, shapes, types
and classes of errors must be the same, or docs/migration.md has a row that says why not. The last table of that page is
made from the workflows; ``STAICC_WRITE_TABLES=1`` writes it.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.errors import RemovedNameError
from StaICC.removed import RemovedName
from tests.compatibility import clients, workflows

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "migration.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"

GROUPS = {**workflows.GROUPS, **clients.GROUPS}
ALL = [workflow for group in GROUPS.values() for workflow in group]
TOLERANCE = 1e-6  # logits of our kernels may differ in the last digits of float32


def is_same_error(released: Any, ours: Any) -> bool:
    """Return whether our error has the released class, or one that is derived from it."""
    released_class = released["error"][0]
    return released_class in ours["error"]


def is_close(released: float, ours: float) -> bool:
    """Return whether two numbers are equal up to the rounding of logits in float32."""
    return abs(released - ours) <= TOLERANCE * max(1, abs(released))


def is_same(released: Any, ours: Any) -> bool:
    """Return whether two observations are equal: JSON values, or errors."""
    if isinstance(released, dict) and isinstance(ours, dict):
        if "error" in released and "error" in ours:
            return is_same_error(released, ours)
        return released.keys() == ours.keys() and all(is_same(released[key], ours[key]) for key in released)
    if isinstance(released, list) and isinstance(ours, list):
        return len(released) == len(ours) and all(map(is_same, released, ours))
    if type(released) in (int, float) and type(ours) in (int, float):
        return is_close(released, ours)
    return type(released) is type(ours) and bool(released == ours)


def observe(items: list[tuple[str, str, str]], release: Path | None, torch: bool) -> dict[str, Any]:
    """Run workflows, (name, setup, code), in another process, and return what each of them shows, by its name.

    Args:
        items: The workflows.
        release: The folder of the release; ``None`` for this library.
        torch: Whether they need a model.
    """
    job = {"release": None if release is None else str(release), "torch": torch, "workflows": items}
    done = subprocess.run(
        [sys.executable, str(HERE / "observe.py")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": "" if release else str(ROOT), "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    observations: dict[str, Any] = json.loads(done.stdout)
    return observations


def table() -> str:
    """Return the last table of the page: for each group, how many workflows are equal, and the other differences."""
    lines = ["| group | compared | equal | differences |", "|---|---|---|---|"]
    for group, members in GROUPS.items():
        entries = dict.fromkeys(f"`{workflow.entry}`" for workflow in members if workflow.entry)
        equal = sum(workflow.entry == "" for workflow in members)
        lines.append(f"| {group} | {len(members)} | {equal} | {', '.join(entries)} |")
    return "\n".join(lines) + "\n"


def problem_of(
    workflow: workflows.Workflow, released: dict[str, Any], ours: dict[str, Any], with_new_call: dict[str, Any] | None
) -> str | None:
    """Return what contradicts the page, of what a workflow did in the release, does here, and does with the new call.

    Without an entry on the page, both are equal. With one, they differ; what was fixed works, and the error of what was
    removed names the page.
    """
    if workflow.entry == "" and not is_same(released, ours):
        return f"{released} != {ours}"
    if workflow.entry and is_same(released, ours):
        return "equal, but has an entry"
    if with_new_call is not None and not is_same(released, with_new_call):
        return f"the new call: {released} != {with_new_call}"
    if workflow.entry in ("fixed", "readme") and "raises" in ours:
        return f"still fails: {ours}"
    if workflow.entry == "removed" and "docs/migration.md" not in ours["raises"]["message"]:
        return f"does not name the page: {ours}"
    return None


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.pack
@pytest.mark.parametrize("torch", [False, True], ids=["core", "torch"])
def test_code_of_the_release_runs_unchanged_or_the_page_says_why(torch: bool, release: Path, need: Any) -> None:
    need(["torch", "transformers", "numpy"], "the released kernels")
    (metadata,) = release.glob("*.dist-info/METADATA")
    blocks_of_readme = workflows.readme_blocks(metadata.read_text(encoding="utf-8"))
    compared = [workflow for workflow in [*blocks_of_readme, *ALL] if workflow.torch is torch]
    old_calls = [(workflow.name, workflow.setup, workflow.code) for workflow in compared]
    new_calls = [(f"new: {workflow.name}", workflow.setup, workflow.new) for workflow in compared if workflow.new]

    of_release = observe(old_calls, release, torch)
    of_ours = observe([*old_calls, *new_calls], None, torch)

    wrong = []
    for workflow in compared:
        name = workflow.name
        problem = problem_of(workflow, of_release[name], of_ours[name], of_ours.get(f"new: {name}"))
        if problem is not None:
            wrong.append(f"{name}: {problem}"[:1500])
    assert not wrong, "\n".join(wrong)


def removed_members_of_the_page() -> dict[str, set[str]]:
    """Return the removed members of each class or object, from the tables of the page."""
    _, _, after_the_heading = PAGE.read_text(encoding="utf-8").partition("\n## Removed members\n")
    section, _, _ = after_the_heading.partition("\n## ")
    removed: dict[str, set[str]] = {}
    for name, members in re.findall(r"^\| ([a-z_()]+) \| (`[^|]*) \|", section, re.MULTILINE):
        removed.setdefault(name, set()).update(re.findall("`([^`]+)`", members))
    return removed


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.pack
def test_every_public_member_is_there_or_on_the_page(release: Path, need: Any) -> None:
    """Read from the objects of both, so that no member is forgotten."""
    need(["numpy"], "the release")
    workflow = [("members", "", workflows.MEMBERS)]
    released = observe(workflow, release, False)["members"]
    ours = observe(workflow, None, False)["members"]

    removed = {}
    for name, members in released.items():
        removed_of_name = set(members) - set(ours[name])
        if removed_of_name:
            removed[name] = removed_of_name
    assert removed_members_of_the_page() == removed


def test_every_difference_has_a_row_and_every_row_a_workflow() -> None:
    rows_of_page = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    entries = {workflow.entry for workflow in ALL if workflow.entry}

    assert entries == set(rows_of_page)


def test_every_workflow_has_a_name_of_its_own() -> None:
    names = [workflow.name for workflow in ALL]

    assert len(names) == len(set(names))


def test_the_table_of_the_page_has_all_workflows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _old_table, _, after = rest.partition(END)
    page_with_new_table = before + BEGIN + table() + END + after
    if os.environ.get("STAICC_WRITE_TABLES") == "1":
        PAGE.write_text(page_with_new_table, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == page_with_new_table, (
        "the table is old: run this test with STAICC_WRITE_TABLES=1"
    )


HELPER_NAMES = """\
import importlib, types
for module in 'functional stable_random experimentor dataset_interface hgf_dataset_loader configs'.split():
    loaded = importlib.import_module('StaICC.util.' + module)
    names = [name for name in dir(loaded) if not name.startswith('__')]
    show(module, [name for name in names if not isinstance(getattr(loaded, name), types.ModuleType)])
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.pack
def test_every_name_of_the_helpers_works_or_says_what_to_write(release: Path, need: Any) -> None:
    """Read from the modules of the release, so that no name is forgotten."""
    need(["numpy"], "the release")
    released = observe([("names", "", HELPER_NAMES)], release, False)["names"]
    assert sum(map(len, released.values())) > 50
    for module, names in released.items():
        ours = importlib.import_module(f"StaICC.util.{module}")
        for name in names:
            value = getattr(ours, name)
            if isinstance(value, RemovedName):
                with pytest.raises(RemovedNameError, match=rf"{name} of StaICC 0\.1\.1 is gone\. Write: \S"):
                    value("any", argument=1)


@pytest.mark.parametrize(
    "use",
    [
        "name()",
        "name.attribute",
        "name['key']",
        "name['key'] = 1",
        "'key' in name",
        "len(name)",
        "list(name)",
        "isinstance(1, name)",
        "issubclass(int, name)",
        "class Mine(name): pass",
        "if name: pass",
        "name == True",
        "name != 1",
        "import StaICC; StaICC.Normal(datasets=['mini'], metrics={'mine': name})",
    ],
)
def test_every_use_of_a_name_that_is_gone_says_what_to_write(use: str) -> None:
    from StaICC.util.functional import linspace  # type: ignore[attr-defined]

    with pytest.raises(RemovedNameError, match=r"Write: \[start .*'Removed names' in docs/migration\.md"):
        exec(use, {"name": linspace})
    assert "\n## Removed names\n" in PAGE.read_text(encoding="utf-8")


def test_a_name_that_is_gone_can_be_imported_printed_and_passed_around() -> None:
    from StaICC.util.configs import STRICT_MODE  # type: ignore[attr-defined]

    (passed_around,) = [STRICT_MODE]

    assert passed_around is STRICT_MODE
    assert "STRICT_MODE of StaICC 0.1.1" in repr(STRICT_MODE)
    assert not hasattr(STRICT_MODE, "__wrapped__")


def test_the_page_begins_with_at_most_ten_lines_to_change() -> None:
    """Each has a reason, the code of 0.1.1, and what to write now."""
    first_section = PAGE.read_text(encoding="utf-8").split("\n## ")[0]
    _heading, _line, *rows = [line for line in first_section.splitlines() if line.startswith("|")]

    assert 1 <= len(rows) <= 10
    for row in rows:
        reason, code_before, code_now = re.split(r" \| ", row.strip("| "))
        assert reason != ""
        assert "`" in code_before
        assert "`" in code_now


def test_one_repeat_is_in_the_signature() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    assert experimentor.settings_for_signature()["repeats"] == "2"

    experimentor._repeat_times = 1

    assert experimentor.settings_for_signature()["repeats"] == "1"
    assert experimentor.arguments()["changed"] == ["repeats"]


def test_a_cut_set_is_in_the_signature() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    assert experimentor.settings_for_signature()["split"] is None

    experimentor.demonstration_set().cut_by_index(16)

    split = str(experimentor.settings_for_signature()["split"])  # calibration+demonstration+test
    assert split.endswith(f"+16+{len(experimentor.test_set())}")
    assert experimentor.arguments()["changed"] == ["split"]


def test_an_experimentor_with_other_sizes_says_so_in_the_signature() -> None:
    experimentor = StaICC.util.experimentor.single_experimentor(original_dataset="mini", dividing=[10, 20, 30])

    assert experimentor.settings_for_signature()["split"] == "10+20+30"


def test_metrics_of_the_release_are_marked_in_the_signature() -> None:
    metrics = {"accuracy": StaICC.util.functional.accuracy}
    with_released_metric = StaICC.Normal(datasets=["mini"], metrics=metrics)
    with_standard_metric = StaICC.Normal(datasets=["mini"], metrics="accuracy")

    assert "|metrics:custom+accuracy@0.1.1+as released|" in str(with_released_metric.signature())
    assert "|metrics:accuracy|" in str(with_standard_metric.signature())
    assert with_released_metric.arguments()["metrics"]["names"] == [], "the name alone would be the standard metric"


def test_an_argument_under_both_names_is_refused() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    rows = [0] * len(experimentor)
    with pytest.raises(StaICC.ArgumentError, match="got preentered_prediction and input_prediction"):
        experimentor(preentered_prediction=rows, input_prediction=rows)


def test_assigned_pseudo_queries_are_refused_in_a_run() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    experimentor.prompt_former.pseudo_prompt = iter([["N/A"]])

    with pytest.raises(StaICC.ArgumentError, match="pseudo_prompt was assigned; the prompts of a run do not use it"):
        experimentor.prompt_set()


def test_after_pseudo_queries_are_removed_there_are_prompts_again() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    experimentor.prompt_former.pseudo_prompt = iter([["N/A"]])

    experimentor.prompt_former.pseudo_prompt = None

    assert len(experimentor.prompt_set()) > 0


@pytest.mark.parametrize(
    "changes", [{"repeat_times": 1}, {"dividing": [10, 20, 30]}], ids=["one repeat", "another split"]
)
def test_a_replaced_data_set_of_a_benchmark_is_unchecked_and_not_contradicted(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    arguments = {"dividing": benchmark[0].triplet_dataset.sizes, "metrics": benchmark.metrics, **changes}
    benchmark.experimentor[0] = StaICC.util.experimentor.single_experimentor(None, "mini", **arguments)
    benchmark(lambda prompt, label_space: 0).save(tmp_path / "result.json")

    verification = StaICC.verify_file(tmp_path / "result.json")

    assert isinstance(StaICC.status_of(verification), StaICC.Unchecked)


def test_data_sets_of_one_name_are_refused() -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark.experimentor.append(benchmark[0])

    with pytest.raises(StaICC.ArgumentError, match="has 2 data sets named 'mini'"):
        benchmark(lambda prompt, label_space: 0)


def test_a_partial_that_binds_only_the_label_space_is_identified_as_its_kernel(tmp_path: Path) -> None:
    """Each call passes a label space, so that the bound one has no effect; a store needs an identified function."""
    kernel = StaICC.PPMKernel()
    benchmark = StaICC.Normal(datasets=["mini"], limit=2)

    of_partial = benchmark(functools.partial(kernel, label_space=["x"]), store=tmp_path / "store.db")

    of_kernel = benchmark(kernel)
    assert of_partial == of_kernel
    assert of_partial.signature == of_kernel.signature

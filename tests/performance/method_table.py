"""All methods and variants on several data sets: accuracy with interval, paired test against vanilla, and cost.

Both positions of the label: after the last blank of the prompt (``last_blank=prompt``, StaICC's), and with this blank
(``label``, that of the methods' papers). Results are saved in a folder after each data set and group of methods, cheap
groups first. The features are in a store there, so the script can be stopped at any time, and ``--table`` prints what
there is. Usage::

    python tests/performance/method_table.py --folder FOLDER [--limit 128] [--blanks prompt label] [--dtype float32]
    python tests/performance/method_table.py --folder FOLDER --table

Tokens are those that a run of the method alone reads and generates at most, for all data sets: what methods share is
counted for each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from records import arguments, markdown, record

from StaICC import Normal
from StaICC.comparing.comparison import compare_runs
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.methods.catalogue import METHODS, TABLE_2
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import run_all
from StaICC.metrics.paired_tests import holm
from StaICC.results.result import Result, load

DATASETS = ("GLUE-SST2", "TREC", "tweet_eval_emotion", "hate_speech_18", "SST5")
FURTHER = ("temperature_scaling", "linear_calibration", "prototypical_calibration", "dc_pmi")
CALIBRATIONS = ("contextual_calibration", "domain_calibration", "knn_prompt_centroid", "hidden_calibration")
GROUPS = {
    "paper": [name for name in TABLE_2 if name != "sa_icl"],
    "further": list(FURTHER),
    "task_vectors": ["task_vectors"],
    "permutation_ensemble": ["permutation_ensemble"],
    "ensemble": ["ensemble"],
    "staicc": list(CALIBRATIONS),
    "0.1.1": [*CALIBRATIONS, "noisy_channel", "batch_calibration", "ppl_icl", "topk"],
    "sa_icl": ["sa_icl"],
    "sa_icl staicc": ["sa_icl"],
    "sa_icl 0.1.1": ["sa_icl"],
    "generate": ["generate"],
    "generation_calibration": ["generation_calibration"],
}
"""Methods that are run together; the last word names the variant, ``paper`` if it is none."""
REPLIES = ("generate", "generation_calibration")
"""Groups for which the last blank of a prompt means nothing: they remove it."""


CHOOSES_DEMONSTRATIONS = ("topk", "sa_icl")
"""Methods that choose from a number of demonstrations."""


class Row(NamedTuple):
    """A row of the table."""

    variant: str
    method: str
    blank: str
    """The position of the label: ``prompt`` or ``label``."""


class Job(NamedTuple):
    """A group of methods that is run on a data set, and the file of the results."""

    group: str
    blank: str
    dataset: str
    file: Path


def variant_of(group: str) -> str:
    last = group.split()[-1]
    return last if last in ("staicc", "0.1.1") else "paper"


def all_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield the jobs; other variants than ``paper`` have StaICC's position of the label only."""
    for group in options.groups:
        has_one_position = variant_of(group) != "paper" or group in REPLIES
        for blank in options.blanks:
            if blank == "label" and has_one_position:
                continue
            for dataset in options.datasets:
                yield Job(group, blank, dataset, options.folder / f"{group} {blank} {dataset} {options.limit}.json")


def forecast_tokens(
    method: str, kernel: CausalLMKernel, benchmark: Normal, variant: str, options: argparse.Namespace
) -> int:
    """Return how many tokens a run of a method alone reads and generates at most."""
    texts = [f"demonstration_set_cut={options.cut}"] if method in CHOOSES_DEMONSTRATIONS else []
    forecast = forecast_method(
        method,
        kernel,
        [benchmark],
        variant,
        options=texts,
        probe_seconds=0,
        calibration_number=options.calibration,
    )
    return (forecast.tokens or 0) + (forecast.output_tokens or 0)


def run_job(job: Job, kernel: CausalLMKernel, options: argparse.Namespace) -> None:
    """Run the methods of a job, and save their results, and their tokens next to these."""
    methods = GROUPS[job.group]
    variant = variant_of(job.group)
    benchmark = Normal(datasets=[job.dataset], limit=options.limit, unparsed="wrong")
    method_options = {}
    if any(method in CHOOSES_DEMONSTRATIONS for method in methods):
        method_options["demonstration_set_cut"] = options.cut
    tokens = {method: forecast_tokens(method, kernel, benchmark, variant, options) for method in methods}
    results = run_all(
        kernel,
        benchmark,
        variant,
        methods=methods,
        options=method_options,
        store=options.folder / "store.sqlite",
        recheck=False,
        progress=False,
        calibration_number=options.calibration,
    )
    job.file.with_suffix(".tokens").write_text(json.dumps(tokens), "utf-8")
    results.save(job.file)


def compute(options: argparse.Namespace) -> None:
    """Run what was not yet run with this limit."""
    kernels = {
        blank: CausalLMKernel.from_spec(options.model, dtype=options.dtype, device="cpu", last_blank=blank)
        for blank in options.blanks
    }
    for job in all_jobs(options):
        if job.file.exists():
            continue
        began = time.process_time()
        run_job(job, kernels[job.blank], options)
        print(f"{job.file.stem}: {time.process_time() - began:.0f} s of processor time", flush=True)


class Measured(NamedTuple):
    """The result of a method on a data set, and its tokens."""

    result: Result
    tokens: int


Measurements = dict[tuple[Row, str], Measured]
"""What was run, by row of the table and data set."""


def load_measurements(options: argparse.Namespace) -> Measurements:
    """Return all that was run."""
    measured: Measurements = {}
    for job in all_jobs(options):
        if not job.file.exists():
            continue
        saved: Any = load(job.file)
        tokens = json.loads(job.file.with_suffix(".tokens").read_text("utf-8"))
        for method in GROUPS[job.group]:
            if method in saved:
                row = Row(variant_of(job.group), method, job.blank)
                measured[row, job.dataset] = Measured(saved[method], tokens[method])
    return measured


class TestOfMethod(NamedTuple):
    """The paired test of a method against vanilla on a data set."""

    is_better: bool
    p_value: float | None
    corrected_p_value: float | None
    """After Holm's correction for all tests of the table."""

    def mark(self) -> str:
        """Return ``+`` or ``-`` if the difference is significant, twice if it is so after the correction."""
        if self.p_value is None or self.p_value >= 0.05:
            return ""
        sign = "+" if self.is_better else "-"
        is_significant_after_correction = self.corrected_p_value is not None and self.corrected_p_value < 0.05
        return 2 * sign if is_significant_after_correction else sign


def tests_against_vanilla(measured: Measurements) -> dict[tuple[Row, str], TestOfMethod]:
    """Compare each method with vanilla at the same position of the label."""
    differences = {}
    for (row, dataset), (result, _) in measured.items():
        vanilla = measured.get((Row("paper", "vanilla", row.blank), dataset))
        if row.method != "vanilla" and vanilla is not None:
            compared = compare_runs({"vanilla": vanilla.result, row.method: result}, metric="accuracy")
            differences[row, dataset] = compared.comparisons[0].datasets[0]
    corrected = holm([difference.p_value for difference in differences.values()])
    tests = {}
    for (key, difference), corrected_p_value in zip(differences.items(), corrected, strict=True):
        method_is_better = difference.difference < 0  # vanilla minus method
        tests[key] = TestOfMethod(method_is_better, difference.p_value, corrected_p_value)
    return tests


def table(options: argparse.Namespace) -> None:
    """Print the table in Markdown, and record its figures.

    ``+`` and ``-``: better or worse than vanilla at the same position of the label, paired test over test rows with
    p < 0.05; doubled if p < 0.05 also after Holm's correction for all tests of the table.
    """
    measured = load_measurements(options)
    tests = tests_against_vanilla(measured)
    print(f"{len(tests)} tests against vanilla")
    figures: dict[str, float] = {}
    lines = []
    for row in dict.fromkeys(row for row, _ in measured):
        cells = []
        scores = []
        prompts = 0
        tokens = 0
        for dataset in options.datasets:
            if (row, dataset) not in measured:
                cells.append("")
                continue
            result, tokens_of_dataset = measured[row, dataset]
            score = result.divided[dataset]["accuracy"]
            interval = result.details[dataset].intervals["accuracy"]
            mark = tests[row, dataset].mark() if (row, dataset) in tests else ""
            cells.append(f"{score:.3f}{mark} [{interval.low:.2f}, {interval.high:.2f}]")
            scores.append(score)
            prompts += int(result.timing["training_prompts"] + result.timing["test_prompts"])
            tokens += tokens_of_dataset
        mean = sum(scores) / len(scores)
        figures[f"{row.method} {row.variant} {row.blank}"] = mean
        number_if_partial = "" if len(scores) == len(options.datasets) else f" ({len(scores)})"
        shown_mean = f"{mean:.3f}{number_if_partial}"
        lines.append([METHODS[row.method].title, row.variant, row.blank, *cells, shown_mean, prompts, tokens])
    print(markdown(["method", "variant", "blank", *options.datasets, "mean", "prompts", "tokens"], lines))
    record(__file__, figures, {**vars(options), "folder": "FOLDER"})


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--folder": Path("method_table"),
            "--model": "smollm2",
            "--dtype": "float32",
            "--limit": 128,
            "--calibration": 128,  # training prompts of a method
            "--cut": 512,  # demonstrations that TopK and SA-ICL choose from
            "--datasets": DATASETS,
            "--groups": list(GROUPS),
            "--blanks": ("prompt", "label"),
            "--table": False,  # print what was computed so far
        },
    )
    options.folder.mkdir(exist_ok=True)
    (table if options.table else compute)(options)

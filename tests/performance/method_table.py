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


class Row(NamedTuple):
    """A row of the table."""

    variant: str
    method: str
    blank: str


def variant_of(group: str) -> str:
    last = group.split()[-1]
    return last if last in ("staicc", "0.1.1") else "paper"


def runs(options: argparse.Namespace) -> Iterator[tuple[str, str, str, Path]]:
    """Group, position of the label, data set and file of each run; other variants have StaICC's position only."""
    for group in options.groups:
        for blank in options.blanks:
            if blank == "label" and (variant_of(group) != "paper" or group in REPLIES):
                continue
            for dataset in options.datasets:
                yield group, blank, dataset, options.folder / f"{group} {blank} {dataset} {options.limit}.json"


def compute(options: argparse.Namespace) -> None:
    """Run what was not yet run with this limit."""
    kernels = {
        blank: CausalLMKernel.from_spec(options.model, dtype=options.dtype, device="cpu", last_blank=blank)
        for blank in options.blanks
    }
    for group, blank, dataset, target in runs(options):
        if target.exists():
            continue
        began, variant = time.process_time(), variant_of(group)
        benchmark = Normal(datasets=[dataset], limit=options.limit, unparsed="wrong")
        chosen = {"demonstration_set_cut": options.cut} if {"topk", "sa_icl"} & {*GROUPS[group]} else {}
        given = {"calibration_number": options.calibration}
        tokens = {}
        for name in GROUPS[group]:
            texts = [f"{option}={value}" for option, value in chosen.items() if name in ("topk", "sa_icl")]
            forecast = forecast_method(
                name, kernels[blank], [benchmark], variant, options=texts, probe_seconds=0, **given
            )
            tokens[name] = (forecast.tokens or 0) + (forecast.output_tokens or 0)
        table = run_all(
            kernels[blank],
            benchmark,
            variant,
            methods=GROUPS[group],
            options=chosen,
            store=options.folder / "store.sqlite",
            recheck=False,
            progress=False,
            **given,
        )
        target.with_suffix(".tokens").write_text(json.dumps(tokens), "utf-8")
        table.save(target)
        print(f"{target.stem}: {time.process_time() - began:.0f} s of processor time", flush=True)


def found(options: argparse.Namespace) -> Iterator[tuple[Row, str, Result, int]]:
    """Row, data set, result and tokens of all that was run."""
    for group, blank, dataset, target in runs(options):
        if target.exists():
            saved: Any = load(target)
            tokens = json.loads(target.with_suffix(".tokens").read_text("utf-8"))
            for name in GROUPS[group]:
                if name in saved:
                    yield Row(variant_of(group), name, blank), dataset, saved[name], tokens[name]


def table(options: argparse.Namespace) -> None:
    """Print the table in Markdown, and record its figures.

    ``+`` and ``-``: better or worse than vanilla at the same position of the label, paired test over test rows with
    p < 0.05; doubled if p < 0.05 also after Holm's correction for all tests of the table.
    """
    results = {(row, dataset): (result, tokens) for row, dataset, result, tokens in found(options)}
    tests = {}
    for (row, dataset), (result, _) in results.items():
        vanilla = results.get((Row("paper", "vanilla", row.blank), dataset))
        if row.method != "vanilla" and vanilla is not None:
            compared = compare_runs({"vanilla": vanilla[0], row.method: result}, metric="accuracy").comparisons[0]
            tests[row, dataset] = compared.datasets[0]
    corrected = dict(zip(tests, holm([test.p_value for test in tests.values()]), strict=True))
    print(f"{len(tests)} tests against vanilla")
    figures, lines = {}, []
    for row in dict.fromkeys(row for row, _ in results):
        cells, scores, prompts, tokens = [], [], 0, 0
        for dataset in options.datasets:
            if (row, dataset) not in results:
                cells.append("")
                continue
            result, of_dataset = results[row, dataset]
            interval = result.details[dataset].intervals["accuracy"]
            scores.append(result.divided[dataset]["accuracy"])
            prompts += int(result.timing["training_prompts"] + result.timing["test_prompts"])
            tokens += of_dataset
            test, after = tests.get((row, dataset)), corrected.get((row, dataset))
            mark = ""
            if test is not None and test.p_value is not None and test.p_value < 0.05:
                mark = ("+" if test.difference < 0 else "-") * (2 if after is not None and after < 0.05 else 1)
            cells.append(f"{scores[-1]:.3f}{mark} [{interval.low:.2f}, {interval.high:.2f}]")
        mean = sum(scores) / len(scores)
        figures[" ".join((row.method, row.variant, row.blank))] = mean
        partial = "" if len(scores) == len(options.datasets) else f" ({len(scores)})"
        lines.append([METHODS[row.method].title, *row[::2], *cells, f"{mean:.3f}{partial}", prompts, tokens])
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

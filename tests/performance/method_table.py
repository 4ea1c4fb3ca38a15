"""All methods and variants on several data sets: accuracy with interval, paired test against vanilla, and cost.

Results are saved in a folder after each data set and group of methods, cheap groups first. The features are in a store
there, so the script can be stopped at any time, and ``--table`` prints what there is. Usage::

    python tests/performance/method_table.py --folder FOLDER [--limit 128] [--dtype bfloat16]
    python tests/performance/method_table.py --folder FOLDER --table
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from records import arguments, markdown, record

from StaICC import Normal
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.methods.run import METHODS, TABLE_2, run_all
from StaICC.metrics.paired_tests import holm
from StaICC.results import Result, load
from StaICC.results.comparison import compare_runs

DATASETS = ("GLUE-SST2", "TREC", "tweet_eval_emotion", "hate_speech_18", "SST5")
FURTHER = ("temperature_scaling", "linear_calibration", "prototypical_calibration", "dc_pmi")
CALIBRATIONS = ("contextual_calibration", "domain_calibration", "knn_prompt_centroid", "hidden_calibration")
GROUPS = {
    "paper": [name for name in TABLE_2 if name != "sa_icl"],
    "further": list(FURTHER),
    "staicc": list(CALIBRATIONS),
    "0.1.1": [*CALIBRATIONS, "noisy_channel", "batch_calibration", "ppl_icl", "topk"],
    "ensemble": ["ensemble"],
    "sa_icl": ["sa_icl"],
    "sa_icl staicc": ["sa_icl"],
    "sa_icl 0.1.1": ["sa_icl"],
    "generate": ["generate"],
}
"""Methods that are run together; the last word names the variant, ``paper`` if it is none."""


def variant_of(group: str) -> str:
    last = group.split()[-1]
    return last if last in ("staicc", "0.1.1") else "paper"


def compute(options: argparse.Namespace) -> None:
    """Run what was not yet run with this limit."""
    kernel = CausalLMKernel.from_spec(options.model, dtype=options.dtype, device="cpu")
    for group in options.groups:
        for dataset in options.datasets:
            target = options.folder / f"{group} {dataset} {options.limit}.json"
            if target.exists():
                continue
            began = time.process_time()
            table = run_all(
                kernel,
                Normal(datasets=[dataset], limit=options.limit, unparsed="wrong"),
                variant_of(group),
                methods=GROUPS[group],
                options={"demonstration_set_cut": options.cut} if {"topk", "sa_icl"} & {*GROUPS[group]} else {},
                store=options.folder / "store.sqlite",
                recheck=False,
                progress=False,
            )
            table.save(target)
            print(f"{target.stem}: {time.process_time() - began:.0f} s of processor time", flush=True)


def found(options: argparse.Namespace) -> Iterator[tuple[str, str, str, Result]]:
    """Variant, method, data set and result of all that was run."""
    for group, methods in GROUPS.items():
        for dataset in options.datasets:
            target = options.folder / f"{group} {dataset} {options.limit}.json"
            if target.exists():
                saved: Any = load(target)
                for name in methods:
                    if name in saved:
                        yield variant_of(group), name, dataset, saved[name]


def table(options: argparse.Namespace) -> None:
    """Print the table in Markdown, and record its figures.

    ``+`` and ``-``: better or worse than vanilla, paired test over test rows with p < 0.05; doubled if p < 0.05 also
    after Holm's correction for all tests of the table.
    """
    results = {(variant, name, dataset): result for variant, name, dataset, result in found(options)}
    tests = {}
    for key, result in results.items():
        vanilla = results.get(("paper", "vanilla", key[2]))
        if key[1] != "vanilla" and vanilla is not None:
            compared = compare_runs({"vanilla": vanilla, key[1]: result}, metric="accuracy").comparisons[0]
            tests[key] = compared.datasets[0]
    corrected = dict(zip(tests, holm([one.p_value for one in tests.values()]), strict=True))
    print(f"{len(tests)} tests against vanilla")
    figures, rows = {}, []
    for variant, name in dict.fromkeys((variant, name) for variant, name, _ in results):
        cells, scores, prompts = [], [], 0
        for dataset in options.datasets:
            own = results.get((variant, name, dataset))
            if own is None:
                cells.append("")
                continue
            interval = own.details[dataset].intervals["accuracy"]
            scores.append(own.divided[dataset]["accuracy"])
            prompts += int(own.timing["training_prompts"] + own.timing["test_prompts"])
            one, after = tests.get((variant, name, dataset)), corrected.get((variant, name, dataset))
            mark = ""
            if one is not None and one.p_value is not None and one.p_value < 0.05:
                mark = ("+" if one.difference < 0 else "-") * (2 if after is not None and after < 0.05 else 1)
            cells.append(f"{scores[-1]:.3f}{mark} [{interval.low:.2f}, {interval.high:.2f}]")
        mean = sum(scores) / len(scores)
        figures[f"{name} {variant}"] = mean
        partial = "" if len(scores) == len(options.datasets) else f" ({len(scores)})"
        rows.append([METHODS[name].title, variant, *cells, f"{mean:.3f}{partial}", prompts])
    print(markdown(["method", "variant", *options.datasets, "mean", "prompts"], rows))
    record(__file__, figures, {**vars(options), "folder": "FOLDER"})


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--folder": Path("method_table"),
            "--model": "smollm2",
            "--dtype": "bfloat16",
            "--limit": 128,
            "--cut": 512,  # demonstrations that TopK and SA-ICL choose from
            "--datasets": DATASETS,
            "--groups": list(GROUPS),
            "--table": False,  # print what was computed so far
        },
    )
    options.folder.mkdir(exist_ok=True)
    (table if options.table else compute)(options)

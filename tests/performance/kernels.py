"""Compare inference kernels on the same prompts and the same model in one run.

Contenders: the kernel of the released StaICC 0.1.1, this library's (and the same with compiled layers), the Hugging
Face backend of ``lm_eval``, and vLLM (``--vllm PYTHON``, an interpreter with vLLM; through this library's ``vllm:``
kernel, compiled, on all cores). Each runs in a process of its own on a CPU or (``--device cuda``) a GPU; they take
turns, round after round, and the best round counts. Parts:

- ``normal``: Normal prompts of TREC, k = 4;
- ``channel``: the noisy channel of the same queries, six prompts each, in its paper's form (0.1.1 has another form);
- ``suite``: a sample of all sub-benchmarks of TREC that keeps together what shares demonstrations;
- ``long``: one long context in front of many queries, as in LongICLBench. The release and lm_eval run
  ``--loop-count`` of the queries.

Probabilities are compared with those of this library in the same number type. The released wheel is fetched with
``pip``, or given as ``--release WHEEL``; tests compare its prompts with those of this library.
Usage, for all contenders in both number types::

    python tests/performance/kernels.py --dtype float32 bfloat16 --vllm PYTHON
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from records import arguments, markdown, record

# One contender, in a process of its own


def load(model: str, dtype: str, device: str) -> tuple[Any, Any]:
    """A model and its tokenizer: a GGUF file or a folder."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    path = Path(model)
    given = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = str(path.parent if given else path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given)
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), **given)
    return net.to(device).eval(), tokenizer


class Released:
    """The kernel of 0.1.1, one prompt at a time, as its README has it."""

    def __init__(self, net: Any, tokenizer: Any) -> None:
        from StaICC.prefabricate_inference import model_kernel

        self.kernel, self.net, self.tokenizer = model_kernel, net, tokenizer

    def ask(self, prompts: list[Any], labels: list[str]) -> dict[str, Any]:
        if isinstance(prompts[0], str):
            f = self.kernel.standard_ICL_inference_with_torch_Causal_LM
        else:
            f = self.kernel.noisy_channel_ICL_inference_with_torch_Causal_LM
        return {"rows": [f(prompt=p, model=self.net, tokenizer=self.tokenizer, label_space=labels) for p in prompts]}


class Kernel:
    """What the two kernels of this library share. Cached prefixes do not outlive a question here."""

    def ask(self, prompts: list[Any], labels: list[str]) -> dict[str, Any]:
        self.forget()
        return {"rows": self.kernel.batch(prompts, labels)}


class Ours(Kernel):
    """This library's torch kernel, all prompts at once."""

    def __init__(self, net: Any, tokenizer: Any, compile: bool = False) -> None:
        from StaICC.kernels.huggingface.kernel import CausalLMKernel

        # The other kernels run past the positions that a model was trained for, so for its speed ours does too.
        self.kernel = CausalLMKernel(net, tokenizer, max_length=16384, compile=compile)
        self.forget = self.kernel.release
        self.kernel.runner()

    def ask(self, prompts: list[Any], labels: list[str]) -> dict[str, Any]:
        before = self.kernel.runner().computed
        return super().ask(prompts, labels) | {"computed": self.kernel.runner().computed - before}


class VLLM(Kernel):
    """vLLM's offline engine through this library's kernel."""

    def __init__(self, model: str, dtype: str, **engine: Any) -> None:
        from StaICC.kernels.vllm_kernel import VLLMKernel

        self.kernel = VLLMKernel(model, dtype=dtype, max_length=16384, **engine)
        self.forget = self.kernel.engine.reset_prefix_cache


class LmEval:
    """The Hugging Face backend of lm_eval; a label is a continuation, as in its own tasks."""

    def __init__(self, net: Any, tokenizer: Any) -> None:
        from lm_eval.models.huggingface import HFLM

        self.model = HFLM(pretrained=net, tokenizer=tokenizer, batch_size=1, max_length=16384)

    def ask(self, prompts: list[Any], labels: list[str], batch_size: int = 1) -> dict[str, Any]:
        from lm_eval.api.instance import Instance

        self.model.batch_size_per_gpu = batch_size
        if isinstance(prompts[0], str):
            pairs = [(prompt.rstrip(" "), " " + label) for prompt in prompts for label in labels]
        else:
            from StaICC.kernels.protocol import after_label

            cuts = [zip(query, after_label(query, labels), strict=True) for query in prompts]
            pairs = [(prompt[:cut], prompt[cut:]) for query in cuts for prompt, cut in query]
        requests = [Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(pairs)]
        found = [value for value, _ in self.model.loglikelihood(requests, disable_tqdm=True)]
        rows = []
        for start in range(0, len(found), len(labels)):
            scores = found[start : start + len(labels)]
            parts = [math.exp(score - max(scores)) for score in scores]
            rows.append([part / sum(parts) for part in parts])
        return {"rows": rows}


CONTENDERS: dict[str, Callable[..., Any]] = {
    "released": Released,
    "lm_eval": LmEval,
    "vllm": VLLM,
    "ours": Ours,
    "compiled": partial(Ours, compile=True),
}


def load_contender(kind: str, options: argparse.Namespace) -> Any:
    """Load the model of the options in the first of their number types, for one of the contenders."""
    dtype = options.dtype[0]
    if kind == "vllm":
        engine_options = {}
        if options.device != "cpu":
            engine_options["gpu_memory_utilization"] = 0.4  # the other contenders hold memory of the same GPU
        return VLLM(options.model, dtype, **engine_options)
    net, tokenizer = load(options.model, dtype, options.device)
    return CONTENDERS[kind](net, tokenizer)


def contend(kind: str, options: argparse.Namespace) -> None:
    """Answer questions that come as lines on standard input, until it is closed."""
    if kind == "released":
        sys.path.insert(0, str(options.folder / "released"))
    # Answers go to the standard output; what else is printed, as by the released kernel, goes to standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.perf_counter()
    contender = load_contender(kind, options)
    answer: dict[str, Any] = {"seconds": time.perf_counter() - start}
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    while True:
        print(json.dumps(answer), file=out, flush=True)
        if not (line := sys.stdin.readline()):
            return
        start = clock()
        answer = contender.ask(**json.loads(line))
        answer["seconds"] = clock() - start


class Process:
    """A contender as seen from the process that measures."""

    def __init__(self, kind: str, options: argparse.Namespace, dtype: str) -> None:
        self.kind = kind
        python = options.vllm if kind == "vllm" else sys.executable
        command = [python, __file__, "--contend", kind, "--folder", str(options.folder), "--model", options.model]
        environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        if kind == "vllm":
            cores = sorted(os.sched_getaffinity(0))
            environment["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores[: options.threads or None]))
            environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
            environment["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
        self.process = subprocess.Popen(
            [*command, "--dtype", dtype, "--clock", options.clock, "--device", options.device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            stderr=None if options.verbose else subprocess.DEVNULL,
        )
        self.load_seconds = self.read()["seconds"]

    def read(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the contender {self.kind} ended; run with --verbose to see why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, prompts: list[Any], labels: list[str], **more: Any) -> dict[str, Any]:
        self.process.stdin.write(json.dumps({"prompts": prompts, "labels": labels, **more}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


# The measurement


def suite_sample(every: int) -> list[Any]:
    """Queries of all sub-benchmarks of TREC, one in ``every``; those that share demonstrations stay together."""
    from StaICC import Suite

    suite = Suite(datasets=["TREC"])
    prompts = []
    for sub_benchmark in suite:
        for dataset in suite[sub_benchmark]:
            for condition in dataset.conditions():
                prompts += [query.prompt for query in condition.queries[::every]]
    return prompts


def long_prompts(prompts: list[str], characters: int, count: int) -> list[str]:
    """Return prompts with one long context of demonstrations in front of many queries.

    Args:
        prompts: Prompts whose last line is the query, after one line for each demonstration.
        characters: The least length of the context.
        count: The number of queries.
    """
    demonstrations: list[str] = []
    queries: list[str] = []
    for prompt in prompts:
        *demonstrations_of_prompt, query = prompt.split("\n")
        demonstrations += demonstrations_of_prompt
        queries.append(query)

    context = ""
    for demonstration in without_repeats(demonstrations):
        if len(context) < characters:
            context += demonstration + "\n"
    return [context + query for query in without_repeats(queries)[:count]]


def without_repeats(texts: list[str]) -> list[str]:
    """Return the distinct texts, in the order in which they appear first."""
    return list(dict.fromkeys(texts))


def compare(
    processes: list[Process],
    prompts: list[Any],
    labels: list[str],
    rounds: int,
    counts: dict[str, int],
    more: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Let contenders take turns on the same prompts.

    Args:
        processes: The contenders.
        prompts: The prompts.
        labels: Their labels.
        rounds: How often each runs.
        counts: For contenders that run some of the prompts only, and once, how many.
        more: Further arguments of a contender.
    """
    answers: dict[str, list[dict[str, Any]]] = {process.kind: [] for process in processes}
    for number in range(rounds):
        for process in processes:
            if number and process.kind in counts:
                continue  # the loops take longest
            prompts_of_process = prompts[: counts.get(process.kind)]
            answer = process.ask(prompts_of_process, labels, **more.get(process.kind, {}))
            answers[process.kind].append(answer)
            if process.kind == "vllm":
                time.sleep(2)  # its workers wait actively for a second
    reference = answers["ours"][-1]["rows"]
    figures = {}
    for kind, answers_of_kind in answers.items():
        fastest = min(answers_of_kind, key=lambda answer: answer["seconds"])
        rows = fastest.pop("rows")
        figures[kind] = fastest | {
            "prompts": len(rows),
            "prompts_per_second": len(rows) / fastest["seconds"],
            **agreement(rows, reference[: len(rows)]),
        }
    return figures


def agreement(rows: list[list[float]], reference: list[list[float]]) -> dict[str, float]:
    """Return the largest difference of a probability from the reference, and the share of equal predictions."""
    differences = []
    same_predictions = 0
    for row, reference_row in zip(rows, reference, strict=True):
        for probability, reference_probability in zip(row, reference_row, strict=True):
            differences.append(abs(probability - reference_probability))
        if most_probable(row) == most_probable(reference_row):
            same_predictions += 1
    return {"difference": max(differences), "same_predictions": same_predictions / len(rows)}


def most_probable(probabilities: list[float]) -> int:
    """Return the index of the label with the largest probability."""
    return probabilities.index(max(probabilities))


def extract(options: argparse.Namespace) -> None:
    """Extract the released wheel, by default fetched with pip."""
    if options.release is None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(options.folder)]
        subprocess.run([*command, "StaICC==0.1.1"], check=True)
    with zipfile.ZipFile(options.release or next(options.folder.glob("*.whl"))) as archive:
        archive.extractall(options.folder / "released")


def fastest_batch_size(lm_eval_process: Process, sizes: tuple[int, ...], prompts: list[str], labels: list[str]) -> int:
    """Return the batch size with which lm_eval needs the least time for two batches of the largest size."""
    sample = prompts[: 2 * max(sizes)]
    seconds_by_size: dict[int, float] = {}
    for size in sizes:
        answer = lm_eval_process.ask(sample, labels, batch_size=size)
        seconds_by_size[size] = answer["seconds"]
    return min(sizes, key=lambda size: seconds_by_size[size])


def measure(options: argparse.Namespace, dtype: str) -> dict[str, Any]:
    """Run all parts in one number type."""
    from StaICC import Normal  # not above: the release has its own

    (normal,) = Normal(datasets=["TREC"])
    (channel,) = Normal(datasets=["TREC"], noisy_channel=True)
    labels, prompts = normal.get_label_space(), normal.prompt_set()
    left_out = set(options.without)
    if not options.vllm:
        left_out.add("vllm")
    if dtype != "float32":
        left_out.add("released")  # 0.1.1 cannot run models in bfloat16
    processes = {kind: Process(kind, options, dtype) for kind in CONTENDERS if kind not in left_out}
    more: dict[str, dict[str, Any]] = {}
    if "lm_eval" in processes:
        sizes = (4, 8) if options.device == "cpu" else (64, 128, 256)
        more["lm_eval"] = {"batch_size": fastest_batch_size(processes["lm_eval"], sizes, prompts, labels)}
    work = {
        "normal": prompts[: options.prompts_count],
        "channel": channel.prompt_set()[: options.channel_count],
        "suite": suite_sample(options.every),
        "long": long_prompts(prompts, options.characters, options.long_count),
    }
    figures: dict[str, Any] = {"load_seconds": {kind: process.load_seconds for kind, process in processes.items()}}
    for process in processes.values():  # what runs once only, such as the choice of kernels
        process.ask(prompts[-2:], labels)
    for part in options.parts:
        counts = {}
        if part == "long":
            counts = {"released": options.loop_count, "lm_eval": options.loop_count}
        elif options.release_count:
            counts = {"released": options.release_count}
        figures[part] = compare(list(processes.values()), work[part], labels, options.rounds, counts, more)
        print(dtype, part, json.dumps(figures[part]), flush=True)
    for process in processes.values():
        process.close()
    return figures


def main() -> None:
    """Parse the command line and measure."""
    options = arguments(
        __doc__,
        {
            "--parts": ["normal", "channel", "suite", "long"],
            "--model": "smollm2",  # or a GGUF file, or a folder
            "--dtype": ["float32"],
            "--device": "cpu",  # or cuda
            "--vllm": str,  # a Python interpreter with vLLM, which is compared, too
            "--release": Path,  # the wheel of StaICC 0.1.1, if it is at hand
            "--without": [""],  # contenders that do not run
            "--rounds": 2,
            "--prompts-count": 80,
            "--channel-count": 10,
            "--every": 100,  # the suite: one query in so many
            "--characters": 24000,  # the long context
            "--long-count": 100,
            "--loop-count": 1,
            "--release-count": 0,  # prompts of each other part that the release runs; 0 for all
            "--clock": "wall",  # or cpu: on a busy machine, with one thread, without vLLM
            "--threads": 0,  # of matrix products; as many as the machine has
            "--verbose": False,
            "--contend": str,  # used by the script itself, as the next one
            "--folder": Path,
        },
    )
    if options.contend:
        contend(options.contend, options)
        return
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    if options.model == "smollm2":
        from StaICC.kernels.huggingface.source import smollm2_file

        options.model = str(smollm2_file())
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        if "released" not in options.without:
            extract(options)
        found = {dtype: measure(options, dtype) for dtype in options.dtype}
    rows = (
        [part, dtype, *(f"{kinds[k]['prompts_per_second']:.3g}" if k in kinds else "" for k in CONTENDERS)]
        for dtype, parts in found.items()
        for part, kinds in parts.items()
        if part != "load_seconds"
    )
    print(markdown(["queries/s", "type", *CONTENDERS], rows))
    private = {"folder": None, "release": None, "vllm": options.vllm and "vllm", "model": Path(options.model).name}
    record(__file__, found, {**vars(options), **private})


if __name__ == "__main__":
    main()

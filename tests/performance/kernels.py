"""Compare inference kernels on the same prompts and the same model in one run.

Contenders: the kernel of the released StaICC 0.1.1, this library's, and the Hugging Face backend of ``lm_eval``. Each
    runs in a
process of its own, so that their memory can be told apart; they take turns, round after round, so that a busy machine
is busy for all of them, and the best round counts (the medians are printed too). What is measured:

- ``normal``: Normal prompts of TREC, k = 4;
- ``channel``: the noisy channel of the same queries, six prompts each;
- ``suite``: all sub-benchmarks of TREC: 11,140 queries, of which a sample is run that keeps together what shares
demonstrations;
- ``long``: one long context in front of many queries, as in LongICLBench, against a plain loop (a sample of the loop
is run).

Prompts come from the released wheel (fetched with ``pip``, or ``--release WHEEL``), so nothing of the measurement
depends on the library that is measured. Usage::

    python tests/performance/kernels.py --parts normal,channel,suite,long --json out.json

On a machine with a CUDA device, ``--device cuda`` measures random weights of the sizes of GPT-2 (``--model gpt2-size``)
and of a model with seven thousand million parameters (``--model 7b-size --dtype bfloat16 --no-released --no-lm-eval``).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records import record

ROOT = Path(__file__).resolve().parents[2]

COLLECT = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import StaICC
from StaICC.util.hgf_dataset_loader import trec
count = 0
found = {}
with contextlib.redirect_stdout(io.StringIO()):
    for name in ("Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens"):
        seen = []
        def f(prompt, label_space):
            global count
            count += 1
            seen.append(prompt)
            row = [0.5 / len(label_space)] * len(label_space)
            row[count % len(row)] += 0.5
            return row
        benchmark = getattr(StaICC, name)(datasets=[trec])
        benchmark(f)
        found[name] = seen
    channel = StaICC.Normal(datasets=[trec], noisy_channel=True).experimentor[0].prompt_set()
labels = benchmark.experimentor[0].get_label_space()
json.dump({"suite": found, "channel": channel, "label_space": labels}, open(sys.argv[2], "w"))
"""


# One contender, in a process of its own


def trained_tokenizer(texts: list[str]) -> Any:
    """A byte-level tokenizer made from the prompts themselves, for models of random weights."""
    import tokenizers
    import transformers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=16384, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )


def load(model: str, device: str, dtype: str, texts: list[str]) -> tuple[Any, Any]:
    """A model and its tokenizer: a GGUF file, a folder, or random weights of a size."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    number = getattr(torch, dtype)
    if model.endswith("-size"):
        config = {
            "gpt2-size": transformers.GPT2Config(n_positions=16384),
            "7b-size": transformers.LlamaConfig(vocab_size=50304, max_position_embeddings=16384),
        }[model]
        before = torch.get_default_dtype()
        torch.set_default_dtype(number)
        torch.manual_seed(0)
        with torch.device(device):
            net = transformers.AutoModelForCausalLM.from_config(config)
        torch.set_default_dtype(before)
        return net.eval(), trained_tokenizer(texts)
    path = Path(model)
    arguments = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = str(path.parent if arguments else path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **arguments)
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=number, **arguments)
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


class Ours:
    """This library's kernel, all prompts at once. The prefix cache does not outlive a question here."""

    def __init__(self, net: Any, tokenizer: Any) -> None:
        from StaICC.kernels.huggingface.kernel import CausalLMKernel

        # The other kernels run past the positions that a model was trained for, so for its speed ours does too.
        self.kernel = CausalLMKernel(net, tokenizer, variant="0.1.1", max_length=16384)
        self.kernel.runner()

    def ask(self, prompts: list[Any], labels: list[str]) -> dict[str, Any]:
        scores = self.kernel.score(prompts, labels)
        self.kernel.release()
        report = scores.report
        return {
            "rows": scores.probabilities,
            "tokens": report.tokens,
            "distinct": report.distinct,
            "computed": report.computed,
            "padding": report.padding,
        }


class OursPaper(Ours):
    """The same with the noisy channel in its paper's form."""

    def __init__(self, net: Any, tokenizer: Any) -> None:
        super().__init__(net, tokenizer)
        self.kernel.variant = "paper"


class LmEval:
    """The Hugging Face backend of lm_eval; a label is a continuation, as in its own tasks."""

    def __init__(self, net: Any, tokenizer: Any) -> None:
        from lm_eval.models.huggingface import HFLM

        self.model = HFLM(pretrained=net, tokenizer=tokenizer, batch_size=1, max_length=16384)

    def ask(self, prompts: list[Any], labels: list[str], batch_size: int = 1) -> dict[str, Any]:
        from lm_eval.api.instance import Instance

        self.model.batch_size_per_gpu = batch_size
        requests = [
            Instance("loglikelihood", {}, (prompt.rstrip(" "), " " + label), index)
            for index, prompt in enumerate(prompts)
            for label in labels
        ]
        found = [value for value, _ in self.model.loglikelihood(requests, disable_tqdm=True)]
        rows = []
        for start in range(0, len(found), len(labels)):
            scores = found[start : start + len(labels)]
            parts = [math.exp(score - max(scores)) for score in scores]
            rows.append([part / sum(parts) for part in parts])
        return {"rows": rows}


CONTENDERS = {"released": Released, "ours": Ours, "ours-paper": OursPaper, "lm_eval": LmEval}


def contend(kind: str, path: str, model: str, device: str, dtype: str, prompts: str, clock: str) -> None:
    """Answer questions that come as lines on standard input, until it is closed."""
    sys.path.insert(0, path)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the released kernel prints
    texts = json.loads(Path(prompts).read_text(encoding="utf-8"))["suite"]["Normal"] if model.endswith("-size") else []
    net, tokenizer = load(model, device, dtype, texts)
    contender = CONTENDERS[kind](net, tokenizer)
    import resource  # not on Windows

    import torch

    start_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shape = {"parameters": sum(weight.numel() for weight in net.base_model.parameters())}
    shape["parameters"] -= net.get_input_embeddings().weight.numel()
    out.write(json.dumps(shape) + "\n")
    out.flush()
    for line in sys.stdin:
        question = json.loads(line)
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start, start_cpu = time.perf_counter(), time.process_time()
        answer = contender.ask(**question)
        if device == "cuda":
            torch.cuda.synchronize()
            answer["peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
        answer["wall_seconds"] = time.perf_counter() - start
        answer["cpu_seconds"] = time.process_time() - start_cpu
        answer["seconds"] = answer[f"{clock}_seconds"]
        if device != "cuda":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answer["peak_mb"] = peak / 1e3
            answer["above_loading_mb"] = (peak - start_memory) / 1e3
        out.write(json.dumps(answer) + "\n")
        out.flush()


class Process:
    """A contender as seen from the process that measures."""

    def __init__(self, kind: str, path: str, options: argparse.Namespace, prompts: Path) -> None:
        self.kind = kind
        command = [sys.executable, __file__, "--contend", kind, "--path", path, "--prompts", str(prompts)]
        command += ["--model", options.model, "--device", options.device, "--dtype", options.dtype]
        command += ["--clock", options.clock]
        environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            stderr=None if options.verbose else subprocess.DEVNULL,
        )
        self.parameters = self._read()["parameters"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the contender {self.kind} ended; run with --verbose to see why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, prompts: list[Any], labels: list[str], **more: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"prompts": prompts, "labels": labels, **more}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# The measurement


def peak_product(device: str, dtype: str, clock: Callable[[], float]) -> float:
    """Measured throughput of a large matrix product, in floating-point operations per second; the best way at hand."""
    import torch

    size = 8192 if device == "cuda" else 2048
    a = torch.randn(size, size, device=device).to(getattr(torch, dtype))
    ways = [lambda: a @ a]
    if device == "cpu" and dtype == "float32" and torch.backends.mkldnn.is_available():
        ways.append(lambda: torch.ops.mkldnn._linear_pointwise(a, a, None, "none", [], ""))
    best = math.inf
    for way in ways:
        for _ in range(12):
            start = clock()
            way()
            if device == "cuda":
                torch.cuda.synchronize()
            best = min(best, clock() - start)
    return 2.0 * size**3 / best


def suite_sample(suite: dict[str, list[str]], every: int) -> list[str]:
    """Queries of all sub-benchmarks, one in ``every``, keeping together those that share demonstrations."""
    queries = len(suite["Normal"])
    chosen = range(0, queries, every)
    sample: list[str] = []
    for name in ("Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER"):
        prompts = suite[name]
        for start in range(0, len(prompts), queries):
            sample.extend(prompts[start + i] for i in chosen)
    for name, group in (("Template_sens", 100), ("Demo_sens", 128)):
        prompts = suite[name]
        for start in range(0, len(prompts), group):
            sample.extend(prompts[start + i] for i in range(0, group, every))
    return sample


def long_prompts(suite: dict[str, list[str]], characters: int, count: int) -> list[str]:
    """One long context of demonstrations in front of many queries."""
    demonstrations: list[str] = []
    seen: set[str] = set()
    size = 0
    for prompt in suite["Normal"]:
        for line in prompt.split("\n")[:-1]:
            if line not in seen and size < characters:
                seen.add(line)
                demonstrations.append(line)
                size += len(line) + 1
    context = "\n".join(demonstrations) + "\n"
    queries = dict.fromkeys(prompt.split("\n")[-1] for prompt in suite["Normal"])
    return [context + query for query in list(queries)[:count]]


def difference(left: list[list[float]], right: list[list[float]]) -> float:
    """Largest difference of two matrices of probabilities."""
    return max(abs(a - b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))


def agreement(left: list[list[float]], right: list[list[float]]) -> float:
    """Share of rows with the same largest entry."""
    same = [a.index(max(a)) == b.index(max(b)) for a, b in zip(left, right, strict=True)]
    return sum(same) / len(same)


def compare(
    processes: list[Process], prompts: list[Any], labels: list[str], rounds: int, peak: float, **more: Any
) -> dict[str, Any]:
    """Let contenders take turns on the same prompts."""
    answers: dict[str, list[dict[str, Any]]] = {process.kind: [] for process in processes}
    for _ in range(rounds):
        for process in processes:
            extra = more if process.kind == "lm_eval" else {}
            answers[process.kind].append(process.ask(prompts, labels, **extra))
    found: dict[str, Any] = {}
    for process in processes:
        seconds = [answer["seconds"] for answer in answers[process.kind]]
        last = answers[process.kind][-1]
        found[process.kind] = {
            "prompts": len(prompts),
            "seconds_best": min(seconds),
            "seconds_median": statistics.median(seconds),
            "prompts_per_second": len(prompts) / min(seconds),
            "peak_mb": last["peak_mb"],
            "rows": last["rows"],
        }
        for name in ("tokens", "distinct", "computed", "padding", "above_loading_mb"):
            if name in last:
                found[process.kind][name] = last[name]
    tokens = next((f["tokens"] for f in found.values() if "tokens" in f), None)
    for kind, f in found.items():
        if tokens:
            f["tokens_per_second"] = tokens / f["seconds_best"]
            done = f.get("computed", tokens)
            # Two operations per parameter and position, attention left out; for 0.1.1 and lm_eval the output matrix
            # too.
            f["share_of_peak"] = 2.0 * processes[0].parameters * done / f["seconds_best"] / peak
        if kind != "released" and "released" in found:
            f["times_released"] = found["released"]["seconds_best"] / f["seconds_best"]
            f["difference"] = difference(f["rows"], found["released"]["rows"])
            f["same_predictions"] = agreement(f["rows"], found["released"]["rows"])
    for f in found.values():
        del f["rows"]
    return found


def tell(part: str, found: dict[str, Any]) -> None:
    """Print the figures of one part."""
    for kind, figures in found.items():
        if isinstance(figures, dict):
            shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
            print(f"{part:8} {kind:11} {shown}", flush=True)
        else:
            print(f"{part:8} {kind} {figures}", flush=True)


def processor() -> str:
    """Name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all parts."""
    import torch

    released = folder / "released"
    wheel = options.release or fetch_release(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(released)
    prompts_file = folder / "prompts.json"
    subprocess.run([sys.executable, "-W", "ignore", "-c", COLLECT, str(released), str(prompts_file)], check=True)
    collected = json.loads(prompts_file.read_text())
    labels, suite, channel = collected["label_space"], collected["suite"], collected["channel"]
    if options.model == "smollm2":
        sys.path.insert(0, str(ROOT))
        from StaICC.kernels.huggingface.smollm2 import smollm2_file

        options.model = str(smollm2_file())

    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    peak = peak_product(options.device, options.dtype, clock)
    device = torch.cuda.get_device_name() if options.device == "cuda" else processor()
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": device,
        "threads": torch.get_num_threads(),
        "clock": options.clock,
        "torch": torch.__version__,
        "model": Path(options.model).name,
        "dtype": options.dtype,
        "matrix_product_gflops": peak / 1e9,
    }
    tell("machine", found)
    parts = options.parts.split(",")
    start = {"ours": str(ROOT)} if options.no_released else {"released": str(released), "ours": str(ROOT)}
    processes = {kind: Process(kind, path, options, prompts_file) for kind, path in start.items()}
    both = list(processes.values())
    if "normal" in parts:
        prompts = suite["Normal"][: options.prompts_count]
        three = list(both)
        size = 1
        if not options.no_lm_eval:
            backend = Process("lm_eval", str(ROOT), options, prompts_file)
            trial = {n: backend.ask(prompts[:32], labels, batch_size=n)["seconds"] for n in options.batch_sizes}
            size = min(trial, key=lambda n: trial[n])
            found["lm_eval_trial"] = trial
            three.append(backend)
        found["normal"] = compare(three, prompts, labels, options.rounds, peak, batch_size=size)
        if not options.no_lm_eval:
            three[2].close()
            found["normal"]["lm_eval"]["batch_size"] = size
            figures = found["normal"]
            figures["ours"]["times_lm_eval"] = figures["lm_eval"]["seconds_best"] / figures["ours"]["seconds_best"]
        tell("normal", found["normal"])
    if "channel" in parts:
        queries = channel[: options.channel_count]
        paper = Process("ours-paper", str(ROOT), options, prompts_file)
        found["channel"] = compare([*both, paper], queries, labels, options.rounds, peak)
        paper.close()
        tell("channel", found["channel"])
    if "suite" in parts:
        prompts = suite_sample(suite, options.every)
        found["suite"] = compare(both, prompts, labels, options.rounds, peak)
        whole = sum(map(len, suite.values()))
        for figures in found["suite"].values():
            figures["hours_for_all"] = figures["seconds_best"] * whole / len(prompts) / 3600
        ours = found["suite"]["ours"]
        ours["computed_over_distinct"] = ours["computed"] / ours["distinct"]
        tell("suite", found["suite"])
    if "long" in parts and not options.no_released:
        prompts = long_prompts(suite, options.characters, options.long_count)
        loop = processes["released"].ask(prompts[: options.loop_count], labels)
        ours = processes["ours"].ask(prompts, labels)
        seconds = loop["seconds"] / options.loop_count * len(prompts)
        found["long"] = {
            "context_tokens": ours["tokens"] // len(prompts),
            "queries": len(prompts),
            "loop_seconds_extrapolated": seconds,
            "loop_queries_run": options.loop_count,
            "ours_seconds": ours["seconds"],
            "times_loop": seconds / ours["seconds"],
            "computed": ours["computed"],
            "distinct": ours["distinct"],
            "difference": difference(loop["rows"], ours["rows"][: options.loop_count]),
        }
        tell("long", found["long"])
    for process in processes.values():
        process.close()
    return found


def fetch_release(folder: Path) -> Path:
    """The released wheel, with the user's own pip."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "--dest", str(folder), "StaICC==0.1.1"]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="normal,channel,suite,long")
    parser.add_argument("--model", default="smollm2", help="smollm2, a GGUF file, a folder, gpt2-size or 7b-size")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--release", type=Path, help="the wheel of StaICC 0.1.1, if it is at hand")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompts-count", type=int, default=200)
    parser.add_argument("--channel-count", type=int, default=20)
    parser.add_argument("--every", type=int, default=50, help="the suite: one query in so many")
    parser.add_argument("--characters", type=int, default=44000, help="the long context")
    parser.add_argument("--long-count", type=int, default=500)
    parser.add_argument("--loop-count", type=int, default=3)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--no-lm-eval", action="store_true")
    parser.add_argument("--no-released", action="store_true", help="0.1.1 cannot run models in bfloat16")
    parser.add_argument(
        "--clock", default="wall", choices=["wall", "cpu"], help="cpu: on a busy machine, with one thread"
    )
    parser.add_argument("--threads", type=int, help="threads of matrix products; default: as many as the machine has")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true")
    for hidden in ("--contend", "--path", "--prompts"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        contend(
            options.contend, options.path, options.model, options.device, options.dtype, options.prompts, options.clock
        )
        return
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    record(__file__, found, vars(options))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Compare inference kernels on the same prompts and the same model in one run.

Contenders: the kernel of the released StaICC 0.1.1, this library's (and on a CPU the same with compiled layers), the
Hugging Face backend of ``lm_eval``, and vLLM (``--vllm PYTHON``, an interpreter with vLLM; through this library's
``vllm:`` kernel, compiled, on all cores). Each
runs in a process of its own; they take turns, round after round, and the best round counts. Parts:

- ``normal``: Normal prompts of TREC, k = 4;
- ``channel``: the noisy channel of the same queries, six prompts each, in its paper's form (0.1.1 has another form);
- ``suite``: a sample of all sub-benchmarks of TREC that keeps together what shares demonstrations;
- ``long``: one long context in front of many queries, as in LongICLBench. The release and lm_eval run
  ``--loop-count`` of the queries.

Probabilities are compared with those of this library in the same number type. For this library, the time of matrix
products, attention and all other operators is listed, too. Prompts come from the released wheel (fetched with ``pip``,
or ``--release WHEEL``), so nothing of the measurement depends on the library that is measured. Usage, for all
contenders in both number types::

    python tests/performance/kernels.py --dtype float32 bfloat16 --vllm PYTHON --json out.json

On a machine with a CUDA device, ``--device cuda`` measures random weights of the sizes of GPT-2 (``--model gpt2-size``)
and of a model with seven thousand million parameters (``--model 7b-size --dtype bfloat16 --no-released --no-lm-eval``).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import platform
import re
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


class Kernel:
    """What the two kernels of this library share. Cached prefixes do not outlive a question here."""

    def ask(self, prompts: list[Any], labels: list[str], variant: str = "paper") -> dict[str, Any]:
        self.kernel.options = dataclasses.replace(self.kernel.options, variant=variant)
        self.forget()
        return {"rows": self.kernel.batch(prompts, labels)}


class Ours(Kernel):
    """This library's torch kernel, all prompts at once."""

    compile = False

    def __init__(self, net: Any, tokenizer: Any) -> None:
        from StaICC.kernels.huggingface.kernel import CausalLMKernel

        # The other kernels run past the positions that a model was trained for, so for its speed ours does too.
        self.kernel = CausalLMKernel(net, tokenizer, max_length=16384, compile=self.compile)
        self.forget = self.kernel.release
        self.kernel.runner()

    def ask(self, prompts: list[Any], labels: list[str], variant: str = "paper", profile: bool = False) -> Any:
        if profile:
            return self.profile(prompts, labels)
        answer = super().ask(prompts, labels, variant)
        report = self.kernel.last_scores.report
        return answer | {name: getattr(report, name) for name in ("tokens", "distinct", "computed", "padding")}

    def profile(self, prompts: list[Any], labels: list[str]) -> dict[str, Any]:
        """Return the share of the time of groups of operators."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            start = time.perf_counter()
            super().ask(prompts, labels)
            total = time.perf_counter() - start
        groups = dict.fromkeys(("matrix products", "attention", "other operators"), 0.0)
        for event in profiler.key_averages():
            name = "other operators"
            if re.search(r"attention", event.key):
                name = "attention"
            elif re.search(r"::(mm|addmm|bmm|_linear_pointwise)$", event.key):
                name = "matrix products"
            groups[name] += event.self_cpu_time_total / 1e6
        return {"rows": [], "shares": groups | {"Python and waiting": total - sum(groups.values()), "total": total}}


class Compiled(Ours):
    """The same with compiled layers."""

    compile = True


class VLLM(Kernel):
    """vLLM's offline engine through this library's kernel."""

    def __init__(self, model: str, dtype: str) -> None:
        from StaICC.kernels.vllm_kernel import VLLMKernel

        self.kernel = VLLMKernel(model, dtype=dtype, max_length=16384)
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
            from StaICC.kernels.label_scores import after_label

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


KINDS = ("released", "lm_eval", "vllm", "ours", "compiled")
SHOWN = ("tokens", "distinct", "computed", "padding", "peak_mb")
CONTENDERS = {"released": Released, "ours": Ours, "compiled": Compiled, "lm_eval": LmEval}


def contend(kind: str, path: str, model: str, device: str, dtype: str, prompts: str, clock: str) -> None:
    """Answer questions that come as lines on standard input, until it is closed."""
    sys.path.insert(0, path)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the released kernel prints
    texts = json.loads(Path(prompts).read_text(encoding="utf-8"))["suite"]["Normal"] if model.endswith("-size") else []
    import resource  # not on Windows

    import torch

    start = time.perf_counter()
    facts: dict[str, float] = {}
    if kind == "vllm":
        contender: Any = VLLM(model, dtype)
    else:
        net, tokenizer = load(model, device, dtype, texts)
        contender = CONTENDERS[kind](net, tokenizer)
        facts["parameters"] = sum(weight.numel() for weight in net.base_model.parameters())
        facts["parameters"] -= net.get_input_embeddings().weight.numel()
    out.write(json.dumps({"load_seconds": time.perf_counter() - start, **facts}) + "\n")
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
        if device != "cuda" and kind != "vllm":  # vLLM has workers
            answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        out.write(json.dumps(answer) + "\n")
        out.flush()


class Process:
    """A contender as seen from the process that measures."""

    def __init__(self, kind: str, path: str, options: argparse.Namespace, dtype: str, prompts: Path) -> None:
        self.kind = kind
        python = options.vllm if kind == "vllm" else sys.executable
        command = [python, __file__, "--contend", kind, "--path", path, "--prompts", str(prompts)]
        command += ["--model", options.model, "--device", options.device, "--dtype", dtype, "--clock", options.clock]
        environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        if kind == "vllm":
            cores = sorted(os.sched_getaffinity(0))
            environment["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores[: options.threads]))
            environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
            environment["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
        self.log = prompts.with_name(f"{kind}-{dtype}.log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                stderr=None if options.verbose else log,
            )
        facts = self._read()
        self.parameters, self.load_seconds = facts.get("parameters"), facts["load_seconds"]

    def compile_seconds(self) -> float | None:
        """Return the time that vLLM on a CPU compiled for, by the times of its log; or None."""
        log = self.log.read_text("utf-8", "replace")
        times = [
            re.search(rf"([\d-]+ [\d:]+) \[[^]]*\] Warming up {end}", log) for end in ("model for the comp", "done")
        ]
        if None in times:
            return None
        begin, end = (datetime.datetime.strptime(found[1], "%m-%d %H:%M:%S") for found in times if found)
        return (end - begin).total_seconds()

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
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


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


def compare(
    processes: list[Process],
    prompts: list[Any],
    labels: list[str],
    rounds: int,
    peak: float,
    *,
    counts: dict[str, int] | None = None,
    more: dict[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Let contenders take turns on the same prompts.

    Args:
        processes: The contenders.
        prompts: The prompts.
        labels: Their labels.
        rounds: How often each runs.
        peak: Throughput of a large matrix product.
        counts: For contenders that run some of the prompts only, how many.
        more: Further arguments of a contender.
    """
    answers: dict[str, list[dict[str, Any]]] = {process.kind: [] for process in processes}
    for number in range(rounds):
        for process in processes:
            if number and counts and process.kind in counts:
                continue  # the loops take longest
            asked = prompts[: (counts or {}).get(process.kind)]
            answers[process.kind].append(process.ask(asked, labels, **(more or {}).get(process.kind, {})))
            if process.kind == "vllm":
                time.sleep(2)  # its workers wait actively for a second
    found: dict[str, Any] = {}
    for process in processes:
        best = min(answers[process.kind], key=lambda answer: answer["seconds"])
        count = len(best["rows"])
        figures = {"prompts": count, "seconds": best["seconds"], "prompts_per_second": count / best["seconds"]}
        found[process.kind] = figures | {name: value for name, value in best.items() if name in SHOWN}
    parameters = next(process.parameters for process in processes if process.parameters)
    tokens = found["ours"]["tokens"] / len(prompts)
    reference = answers["ours"][-1]["rows"]
    for kind, figures in found.items():
        done = figures.get("computed", tokens * figures["prompts"])
        # Two operations per parameter and position; attention and, for some, the output matrix are left out.
        figures["share_of_peak"] = 2.0 * parameters * done / figures["seconds"] / peak
        figures["times_ours"] = figures["prompts_per_second"] / found["ours"]["prompts_per_second"]
        pairs = list(zip(answers[kind][-1]["rows"], reference, strict=False))
        figures["difference"] = max(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True))
        figures["same_predictions"] = sum(a.index(max(a)) == b.index(max(b)) for a, b in pairs) / len(pairs)
    return found


def table(found: dict[str, Any]) -> str:
    """Return the queries per second of all contenders as one Markdown table."""
    lines = [
        "| queries/s | type | 0.1.1 | lm_eval | vLLM | StaICC | compiled | StaICC / vLLM | share of matrix product |"
    ]
    lines.append("|---|---|" + "---:|" * 7)
    for dtype, parts in found.items():
        for part, kinds in parts["parts"].items():
            cells = [f"{kinds[k]['prompts_per_second']:.3g}" if k in kinds else "" for k in KINDS]
            own = [kinds[kind] for kind in ("ours", "compiled") if kind in kinds]
            ratio = [f"{one['times_ours'] / kinds['vllm']['times_ours']:.2f}" for one in own if "vllm" in kinds]
            share = [f"{one['share_of_peak']:.2f}" for one in own]
            lines.append(f"| {' | '.join([part, dtype, *cells, ', '.join(ratio), ', '.join(share)])} |")
    return "\n".join(lines)


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


def collect(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Write the prompts of the release into a folder and return them; find the file of the model."""
    wheel = options.release or fetch_release(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "released")
    command = [sys.executable, "-W", "ignore", "-c", COLLECT, str(folder / "released"), str(folder / "prompts.json")]
    subprocess.run(command, check=True)
    if options.model == "smollm2":
        sys.path.insert(0, str(ROOT))
        from StaICC.kernels.huggingface.source import smollm2_file

        options.model = str(smollm2_file())
    found: dict[str, Any] = json.loads((folder / "prompts.json").read_text("utf-8"))
    return found


def measure(options: argparse.Namespace, dtype: str, collected: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run all parts in one number type."""
    import torch

    labels, suite = collected["label_space"], collected["suite"]
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    peak = peak_product(options.device, dtype, clock)
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "clock": options.clock,
        "torch": torch.__version__,
        "model": Path(options.model).name,
        "matrix_product_gflops": peak / 1e9,
        "parts": {},
    }
    tell(f"{dtype}:", found)
    kinds = {"ours": ROOT}
    if options.device == "cpu":
        kinds["compiled"] = ROOT
    if not options.no_released and dtype == "float32":  # 0.1.1 cannot run models in bfloat16
        kinds["released"] = folder / "released"
    if options.vllm:
        kinds["vllm"] = ROOT
    if not options.no_lm_eval:
        kinds["lm_eval"] = ROOT
    started = {kind: Process(kind, str(path), options, dtype, folder / "prompts.json") for kind, path in kinds.items()}
    processes = list(started.values())
    found["load_seconds"] = {kind: process.load_seconds for kind, process in started.items()}
    more: dict[str, dict[str, Any]] = {}
    if "lm_eval" in started:
        sample = suite["Normal"][:16]
        trial = {n: started["lm_eval"].ask(sample, labels, batch_size=n)["seconds"] for n in options.batch_sizes}
        more["lm_eval"] = {"batch_size": min(trial, key=lambda n: trial[n])}
        found["lm_eval_trial"] = trial
    slow = dict.fromkeys(("released", "lm_eval"), options.loop_count)
    work: dict[str, tuple[list[Any], dict[str, int]]] = {
        "normal": (suite["Normal"][: options.prompts_count], {}),
        "channel": (collected["channel"][: options.channel_count], {}),
        "suite": (suite_sample(suite, options.every), {}),
        "long": (long_prompts(suite, options.characters, options.long_count), slow),
    }
    for process in processes:  # what runs once only, such as the choice of kernels
        process.ask(suite["Normal"][-2:], labels)
    for part in options.parts.split(","):
        prompts, counts = work[part]
        found["parts"][part] = compare(processes, prompts, labels, options.rounds, peak, counts=counts, more=more)
        tell(f"{dtype} {part}", found["parts"][part])
    for kind in sorted({"ours", "compiled"} & set(started), reverse=True):
        found[f"profile of {kind}"] = started[kind].ask(work["normal"][0], labels, profile=True)["shares"]
        tell(dtype, {f"profile of normal, {kind}": found[f"profile of {kind}"]})
    for process in processes:
        process.close()
    if "vllm" in started:
        found["vllm_compile_seconds"] = started["vllm"].compile_seconds()
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
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    parser.add_argument("--vllm", help="a Python interpreter with vLLM, which is compared, too")
    parser.add_argument("--release", type=Path, help="the wheel of StaICC 0.1.1, if it is at hand")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompts-count", type=int, default=80)
    parser.add_argument("--channel-count", type=int, default=10)
    parser.add_argument("--every", type=int, default=100, help="the suite: one query in so many")
    parser.add_argument("--characters", type=int, default=24000, help="the long context")
    parser.add_argument("--long-count", type=int, default=100)
    parser.add_argument("--loop-count", type=int, default=1)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[4, 8])
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
        dtype = options.dtype[0]
        contend(options.contend, options.path, options.model, options.device, dtype, options.prompts, options.clock)
        return
    if options.vllm and options.clock == "cpu":
        parser.error("--clock cpu does not count the workers of vLLM; use --clock wall on an idle machine")
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        collected = collect(options, Path(folder))
        found = {dtype: measure(options, dtype, collected, Path(folder)) for dtype in options.dtype}
    print(table(found))
    for name in ("vllm", "release"):  # paths of this machine
        setattr(options, name, None if getattr(options, name) is None else name)
    options.model = Path(options.model).name
    record(__file__, found, vars(options))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

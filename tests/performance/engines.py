"""Do engines predict the same? Each one next to the torch kernel in float32, on the same prompts of three data sets.

All compute SmolLM2-135M: torch, vLLM, its server (completions, chats, litellm) and lm_eval's Hugging Face backend on
exported tasks from the same float32 checkpoint, llama.cpp from the 4-bit file. Labels are compared by scoring rule,
texts of at most 8 tokens by characters. What guided decoding wrote is compared with the label of ``first`` for vLLM,
and with vLLM's for its server. Each engine runs in a process of its own, which prints its memory; its output stays in
``--folder``, and is not computed again. Needs openai, lm_eval and llama-cpp-python here, and Python interpreters with
vLLM and litellm. Usage::

    python tests/performance/engines.py --vllm PYTHON --litellm PYTHON --folder FOLDER
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from records import arguments, markdown, record

from StaICC import Normal, load_kernel
from StaICC.benchmarks.exchange import identified_queries, read_predictions
from StaICC.benchmarks.harness_tasks import export_tasks
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.protocol import label_probabilities
from StaICC.kernels.text_inference import text_inference
from StaICC.kernels.vllm_kernel import _checkpoint

MODES: dict[str, dict[str, Any]] = {
    "last": {"label_scoring": "last"},
    "first": {"label_scoring": "first"},
    "full": {"label_scoring": "full"},
    "chat, first": {"label_scoring": "first", "prompt_format": "chat"},
    "text": {},
    "chat, text": {"prompt_format": "chat"},
    "guided text": {"guided": "choice"},
    "chat, guided text": {"guided": "choice", "prompt_format": "chat"},
}
LOCAL = {
    "hf": "smollm2;dtype=float32;device=cpu",
    "vllm": "vllm:smollm2;dtype=float32;enforce_eager=true;max_model_len=2048",
    "llama": "llama:smollm2",
}
SERVED = {
    "openai": {
        "full": "scoring=prompt-logprobs",
        "first": "scoring=top-logprobs;unlisted=bound",
        "text": "scoring=text",
        "guided text": "scoring=text;guided=choice",
        "chat, first": "scoring=top-logprobs;unlisted=bound;api=chat",
        "chat, text": "scoring=text;api=chat",
        "chat, guided text": "scoring=text;api=chat;guided=choice",
    },
    "litellm": {"chat, text": ""},
}
PORT = 18231
URL = f"http://127.0.0.1:{PORT}/v1"
NEW_TOKENS = 8


def texts(kernel: Any, prompts: list[str], labels: list[str], guided: bool) -> list[Any]:
    """Return a text of a kernel for each prompt, or an exception in its place; if guided, a label without blanks."""
    if not guided:
        return list(kernel.generate(prompts, NEW_TOKENS, ["\n"]))
    is_endpoint = hasattr(kernel, "api")
    function = kernel if is_endpoint else text_inference(kernel, NEW_TOKENS, ["\n"])
    replies = function.batch(prompts, labels)
    return [reply.strip() if isinstance(reply, str) else reply for reply in replies]


def predict(engine: str, benchmark: Any) -> dict[str, list[Any]]:
    """Return the rows of probabilities, or the texts, by mode."""
    sets = [([str(query.prompt) for query in part.all_queries()], part.get_label_space()) for part in benchmark]
    found: dict[str, list[Any]] = {}
    kernel = load_kernel(LOCAL[engine]) if engine in LOCAL else None
    for mode, settings in MODES.items():
        guided = "guided" in settings
        if engine in SERVED:
            if mode not in SERVED[engine]:
                continue
            spec = f"openai:{URL}#smollm2;timeout=600;" if engine == "openai" else "litellm:hosted_vllm/smollm2"
            kernel = load_kernel(spec + SERVED[engine][mode])
        elif guided and engine != "vllm":
            continue
        else:
            options_of_mode = {"label_scoring": "last", "prompt_format": "plain"}
            if engine == "vllm":
                options_of_mode["guided"] = ""
            options_of_mode.update(settings)
            kernel.options = dataclasses.replace(kernel.options, **options_of_mode)
        began = time.monotonic()
        found[mode] = []
        for prompts, labels in sets:
            predictions = texts(kernel, prompts, labels, guided) if "text" in mode else kernel.batch(prompts, labels)
            for prediction in predictions:
                found[mode].append(None if isinstance(prediction, Exception) else prediction)
        print(f"{engine}, {mode}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    import resource

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{engine}: at most {memory} MiB", file=sys.stderr, flush=True)
    return found


def checkpoint() -> str:
    return _checkpoint(ModelSource("smollm2", "cpu", "float32"))[0]


def harness(benchmark: Any) -> dict[str, list[Any]]:
    """Run lm_eval on the exported tasks."""
    with tempfile.TemporaryDirectory() as folder:
        groups = export_tasks(benchmark, folder)
        command = [sys.executable, "-m", "lm_eval", "--include_path", ".", "--tasks", ",".join(groups), "--model", "hf"]
        command += ["--model_args", f"pretrained={checkpoint()},dtype=float32", "--device", "cpu", "--batch_size", "4"]
        subprocess.run([*command, "--log_samples", "--output_path", "logged"], check=True, cwd=folder)
        logged = read_predictions(Path(folder, "logged"))
    return {"full": [label_probabilities(logged[query.id]["logits"]) for query in identified_queries(benchmark)]}


@contextmanager
def server(python: str) -> Iterator[None]:
    """Run vLLM's server within the block."""
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint(), "--dtype", "float32"]
    command += ["--served-model-name", "smollm2", "--port", str(PORT), "--enforce-eager", "--max-model-len", "2048"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                try:
                    urllib.request.urlopen(URL.replace("/v1", "/health"), timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    if process.poll() is not None:
                        raise SystemExit("vLLM's server ended") from None
                    time.sleep(1)
            yield
        finally:
            process.terminate()


def outputs(folder: Path, commands: dict[str, list[str]]) -> dict[str, Any]:
    """Run this script once for each engine, unless its output is there, and return the outputs."""
    for engine, (python, *more) in commands.items():
        if not (folder / f"{engine}.json").exists():
            subprocess.run([python, __file__, "--engine", engine, "--folder", str(folder), *more], check=True)
    return {engine: json.loads((folder / f"{engine}.json").read_text("utf-8")) for engine in commands}


def most_probable(probabilities: list[float]) -> int:
    """Return the index of the label with the largest probability."""
    return probabilities.index(max(probabilities))


def reference_predictions(ours: dict[str, Any], mode: str, labels: list[list[str]]) -> list[Any]:
    """Return our predictions in a mode; of guided texts, the labels of the mode that scores first tokens.

    Args:
        ours: Our predictions by mode, and those of engines that were compared before.
        mode: The mode.
        labels: The names of the labels for each query.
    """
    if mode in ours:
        predictions: list[Any] = ours[mode]
        return predictions
    probabilities = ours[mode.replace("guided text", "first")]
    return [names[most_probable(row)] for names, row in zip(labels, probabilities, strict=True)]


def compare(ours: dict[str, Any], theirs: dict[str, Any], labels: list[list[str]]) -> dict[str, list[Any]]:
    """Return for each mode how many predictions there are, are missing and are equal, and the largest difference."""
    rows: dict[str, list[Any]] = {}
    for mode, predictions in theirs.items():
        reference = reference_predictions(ours, mode, labels)
        pairs = []
        for our, their in zip(reference, predictions, strict=True):
            if their is not None:
                pairs.append((our, their))
        missing = len(predictions) - len(pairs)
        if "text" in mode or not pairs:
            equal = sum(our == their for our, their in pairs)
            rows[mode] = [len(predictions), missing, equal, ""]
            continue
        equal = sum(most_probable(our) == most_probable(their) for our, their in pairs)
        differences = []
        for our, their in pairs:
            for our_probability, their_probability in zip(our, their, strict=True):
                differences.append(abs(our_probability - their_probability))
        rows[mode] = [len(predictions), missing, equal, f"{max(differences):.1e}"]
    return rows


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--datasets": ["GLUE-SST2", "TREC", "tweet_eval_emotion"],
            "--limit": 50,
            "--vllm": sys.executable,
            "--litellm": sys.executable,
            "--without": [""],  # engines that do not run
            "--folder": Path,
            "--engine": str,  # used by the script itself
        },
    )
    benchmark = Normal(datasets=options.datasets, limit=options.limit)
    if options.engine:
        os.environ["HOSTED_VLLM_API_BASE"] = URL  # for litellm
        predictions = harness(benchmark) if options.engine == "lm_eval" else predict(options.engine, benchmark)
        (options.folder / f"{options.engine}.json").write_text(json.dumps(predictions), encoding="utf-8")
        sys.exit()
    folder = options.folder or Path(tempfile.mkdtemp())
    more = ["--limit", str(options.limit), "--datasets", *options.datasets]
    pythons = dict.fromkeys([*LOCAL, "lm_eval", *SERVED], sys.executable)
    pythons |= {"vllm": options.vllm, "litellm": options.litellm}
    commands = {engine: [python, *more] for engine, python in pythons.items() if engine not in options.without}
    served = {engine: command for engine, command in commands.items() if engine in SERVED}
    missing = any(not (folder / f"{engine}.json").exists() for engine in served)
    found = outputs(folder, {k: v for k, v in commands.items() if k not in served})
    with server(options.vllm) if missing else nullcontext():
        found |= outputs(folder, served)
    labels = [part.get_label_space() for part in benchmark for _ in part.all_queries()]
    ours = found.pop("hf")
    figures = {}
    for engine, rows in found.items():
        figures[engine] = compare(ours, rows, labels)
        ours = {**rows, **ours}  # others compare guided texts with those of vllm
    heads = ["engine", "mode", "predictions", "missing", "equal", "largest difference"]
    print(markdown(heads, ([engine, mode, *row] for engine, rows in figures.items() for mode, row in rows.items())))
    record(__file__, figures, {"limit": options.limit, "datasets": options.datasets})

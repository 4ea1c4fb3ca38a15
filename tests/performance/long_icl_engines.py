"""BANKING77, three rounds, by generated text: equal texts of ``hf:``, ``vllm:``, a server and a plain function.

Each engine runs ``LongICL`` with SmolLM2 (135 million parameters, float32, greedy decoding) in a process of its own:

- ``hf``: the torch kernel, which computes a shared context once;
- ``vllm``: vLLM's offline engine (``--vllm-python`` names the Python of its environment);
- ``endpoint``: ``openai:`` with a server that decodes with ``transformers`` and reuses the prompt before;
- ``function``: ``f(prompt, label_space)`` with ``generate`` of ``transformers`` and the cache of the prompt before.

A text that differs from the one of ``hf`` is a near-tie if the logits of the two best tokens after the common beginning
differ by less than 0.01. Engines whose predictions are in ``--folder`` are not run again. Usage::

    python tests/performance/long_icl_engines.py --data DIR --vllm-python PYTHON
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from records import arguments, markdown, other_processes, record

from StaICC import LongICL, load_kernel
from StaICC.kernels.text_inference import load_for_text

ENGINES = ("hf", "vllm", "endpoint", "function")
NEAR_TIE = 1e-2
TORCH = "smollm2;dtype=float32;device=cpu"


class Greedy:
    """Greedy decoding with ``transformers``, by a loop of one's own or by ``generate``.

    What a prompt shares with the one before is not computed again.
    """

    def __init__(self, new_tokens: int, loop: bool) -> None:
        import transformers

        from StaICC.kernels.huggingface.source import smollm2_file

        path = smollm2_file()
        folder, name = str(path.parent), path.name
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32")
        self.model: Any = model.eval()
        self.limit = self.model.config.max_position_embeddings
        self.new_tokens, self.loop = new_tokens, loop
        self.last: list[int] = []
        self.cache: Any = transformers.DynamicCache(config=self.model.config)

    def __call__(self, prompt: str) -> str:
        import torch

        ids = self.tokenizer(prompt).input_ids
        if len(ids) + self.new_tokens > self.limit:
            raise ValueError(f"the prompt has {len(ids)} tokens, but the context length is {self.limit}")
        kept = len(os.path.commonprefix([self.last, ids[:-1]]))  # noqa: RUF071
        if kept < len(self.last):
            self.cache.crop(kept - len(self.last))
        with torch.inference_mode():
            written = self.decode(ids[kept:]) if self.loop else self.generate(ids)
        self.last = [*ids, *written][: self.cache.get_seq_length()]
        return str(self.tokenizer.decode(written, skip_special_tokens=True))

    def generate(self, ids: list[int]) -> list[int]:
        import torch

        given = torch.tensor([ids])
        made = self.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            past_key_values=self.cache,
            max_new_tokens=self.new_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        return list(made[0, len(ids) :].tolist())

    def decode(self, rest: list[int]) -> list[int]:
        import torch

        written: list[int] = []
        while len(written) < self.new_tokens:
            for start in range(0, len(rest), 1024):
                piece = torch.tensor([rest[start : start + 1024]])
                found = self.model(piece, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
            token = int(found.logits[0, -1].argmax())
            if token == self.tokenizer.eos_token_id:
                break
            written.append(token)
            rest = [token]
        return written


def serve(writer: Greedy) -> HTTPServer:
    """Start a server of the completions interface on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                choice = {"index": 0, "text": writer(asked["prompt"]), "finish_reason": "length", "logprobs": None}
                status, reply = 200, {"id": "1", "object": "text_completion", "created": 0, "choices": [choice]}
            except ValueError as error:
                status, reply = 400, {"error": {"message": str(error), "code": "context_length_exceeded"}}
            body = json.dumps(reply | {"model": "smollm2"}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def inference(engine: str, new_tokens: int) -> Any:
    if engine == "function":
        writer = Greedy(new_tokens, loop=False)

        def plain(prompt: str, label_space: list[str]) -> str:
            return writer(prompt)

        return plain
    spec = {"hf": TORCH, "vllm": "vllm:smollm2;dtype=float32;enforce_eager=true"}.get(engine)
    if spec is None:
        port = serve(Greedy(new_tokens, loop=True)).server_port
        os.environ.setdefault("OPENAI_API_KEY", "none")
        spec = f"openai:http://127.0.0.1:{port}/v1#smollm2;concurrency=1;timeout=3600"
    return load_for_text(spec, new_tokens, ())


def benchmark(args: argparse.Namespace) -> LongICL:
    rounds = range(1, args.rounds + 1)
    return LongICL(args.data, ["banking77"], rounds, args.items, announce=lambda notice: None)


def run(engine: str, args: argparse.Namespace, output: Path) -> None:
    """Write the texts and scores of one engine."""
    started, cpu = time.monotonic(), time.process_time()
    function = inference(engine, args.new_tokens)
    result = benchmark(args)(function, return_outputs=True, progress=False, on_error="collect")
    scores = result["Divided results"]["banking77"]
    found = {
        "texts": [row["response"] for row in result.outputs["banking77"]],
        "scores": [scores[f"{number}R"] for number in range(1, args.rounds + 1)],
        "seconds": [time.monotonic() - started, time.process_time() - cpu],
    }
    output.write_text(json.dumps(found, indent=1), encoding="utf-8")


def compare(found: dict[str, Any], args: argparse.Namespace) -> dict[str, list[Any]]:
    """Count the texts that differ from those of the torch kernel, and the near-ties among them."""
    prompts, kernel = benchmark(args)[0].prompt_set(), load_kernel(TORCH)
    ours = found["hf"]["texts"]
    rows = {}
    for engine, of_engine in found.items():
        texts, gaps = of_engine["texts"], []
        for prompt, expected, text in zip(prompts, ours, texts, strict=True):
            if expected != text and expected is not None and text is not None:
                common = prompt + os.path.commonprefix([expected, text])  # noqa: RUF071
                best = sorted(map(float, kernel.full_vocabulary_logits([common])[0]))[-2:]
                gaps.append(best[1] - best[0])
        unlike = sum((expected is None) != (text is None) for expected, text in zip(ours, texts, strict=True))
        written = sum(text is not None for text in texts)
        ties = sum(gap < NEAR_TIE for gap in gaps)
        rows[engine] = [written, len(gaps), ties, unlike, *of_engine["scores"], *of_engine["seconds"]]
    return rows


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--data": os.environ.get("STAICC_LONGICL_DATA", str),
            "--items": 20,
            "--rounds": 3,
            "--new-tokens": 12,
            "--engines": ENGINES,
            "--vllm-python": sys.executable,
            "--folder": Path,  # of the predictions
            "--engine": str,  # used by the script itself
        },
    )
    options.folder = options.folder or Path(tempfile.mkdtemp())
    if options.engine:
        run(options.engine, options, options.folder / f"{options.engine}.json")
        sys.exit()
    given = ["--items", str(options.items), "--rounds", str(options.rounds), "--new-tokens", str(options.new_tokens)]
    given += ["--data", options.data] if options.data else []
    pythons = {engine: options.vllm_python if engine == "vllm" else sys.executable for engine in options.engines}
    commands = {engine: [python, *given] for engine, python in pythons.items()}
    rows = compare(other_processes(__file__, options.folder, commands), options)
    scores = [f"score {number}R" for number in range(1, options.rounds + 1)]
    heads = ["texts", "others", "near-ties of these", "by one engine only", *scores, "seconds", "of the processor"]
    print(markdown(["engine", *heads], ([engine, *row] for engine, row in rows.items())))
    record(__file__, rows, {"items": options.items, "rounds": options.rounds, "new_tokens": options.new_tokens})

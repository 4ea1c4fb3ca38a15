"""Finding out by trial what a model does right.

Packed rows and cached prefixes need a model that takes a four-dimensional mask, position numbers and a key-value
cache, and label scores can be read off a few rows of the output matrix only if the logits are a plain product.
Families differ in this, and releases of ``transformers`` do too. So a model is not judged by its name: the same short
sequences are computed in both ways, once for each model, and a way that raises or gives other numbers is not used.
That costs speed, never exactness.
"""

from __future__ import annotations

import inspect
import logging
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from StaICC.prefabricate_inference.prefix_plan import Row

if TYPE_CHECKING:
    from StaICC.prefabricate_inference.forward import Forward

__all__ = ["Capabilities", "examine", "is_out_of_memory", "limits", "logit_transforms"]

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
    """What a model was found to do right.

    Attributes:
        head: ``"rows"``: logits are hidden state times rows of a matrix, then ``transform``; ``"module"``: the head
            has to be called whole; ``"model"``: the whole model has to be run for its logits.
        transform: Name of what is done to the logits after the product.
        packing: Tree-shaped rows give the same hidden states as plain ones.
        caching: Rows that continue a cached prefix give the same hidden states as plain ones.
        left_padding: Padding on the left gives the same hidden states as none.
        attention_weight: Cost of an attended pair in units of a position outside attention.
        vocabulary: Number of rows of the output matrix.
    """

    head: Literal["rows", "module", "model"]
    transform: str
    packing: bool
    caching: bool
    left_padding: bool
    attention_weight: float
    vocabulary: int


def _text_config(config: Any) -> Any:
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config


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


def _same(torch: Any, found: Any, expected: Any, decoy: Any = None) -> bool:
    """Whether two results differ by rounding only.

    In half precision rounding is coarse, so the difference must also be small beside that to a decoy, which is what a
    wrong mask would give.
    """
    if found.shape != expected.shape or not bool(torch.isfinite(found).all()):
        return False
    exact = expected.dtype in (torch.float32, torch.float64)
    found, expected = found.float(), expected.float()
    error = float((found - expected).norm())
    if error > (2e-5 if exact else 3e-2) * max(float(expected.norm()), 1e-9):
        return False
    return exact or decoy is None or error <= 0.3 * float((decoy.float() - expected).norm())


def _head(forward: Forward, ids: list[int]) -> tuple[Literal["rows", "module", "model"], str, int]:
    """Find how the model's logits follow from its last hidden states."""
    torch, model = forward.torch, forward.model
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([ids], device=forward.device), use_cache=False)
        expected = output.logits[0].float()
        vocabulary = int(expected.shape[-1])
        head = getattr(model, "get_output_embeddings", lambda: None)()
        if forward.body is None or head is None:
            return "model", "none", vocabulary
        try:
            states = forward.body(
                input_ids=torch.tensor([ids], device=forward.device), use_cache=False
            ).last_hidden_state[0]
            product = head(states).float()
        except (AttributeError, TypeError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            return "model", "none", vocabulary
        for name, transform in logit_transforms(model.config).items():
            if _same(torch, transform(product), expected):
                plain = type(head) is torch.nn.Linear and not hasattr(head, "_hf_hook")
                return ("rows" if plain else "module"), name, vocabulary
    return "model", "none", vocabulary


def _attention_weight(model: Any, body: Any) -> float:
    """Cost of an attended pair over that of a position, from the sizes of the model."""
    text = _text_config(model.config)
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
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0 and getattr(text, "use_sliding_window", True):
            window = min(window, value)
    stretched = math.inf
    for name in ("rope_scaling", "rope_parameters"):
        rope = getattr(text, name, None)
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope", "su"):
            original = rope.get("original_max_position_embeddings") or getattr(
                text, "original_max_position_embeddings", None
            )
            stretched = min(stretched, original or getattr(text, "max_position_embeddings", 0) or 0)
    return min(window, stretched), stretched


_examined: weakref.WeakKeyDictionary[Any, Capabilities] = weakref.WeakKeyDictionary()


def examine(forward: Forward) -> Capabilities:
    """Find out by trial what a model does right; done once for each model and number type.

    Args:
        forward: The model; its attribute ``can`` need not be there yet.

    Returns:
        The findings. A way that raises or gives other hidden states is not used later; that costs speed, never
        exactness.
    """
    known = _examined.get(forward.model)
    if known is not None:
        return known
    torch = forward.torch
    size = int(getattr(_text_config(forward.model.config), "vocab_size", 0) or 64)
    ids = [(7 + 37 * i) % max(size - 1, 1) for i in range(9)]
    head, transform, vocabulary = _head(forward, ids)
    # a b c d e | f g  and  a b c | h i j : two sequences that share three tokens.
    first, second = ids[:7], [*ids[:3], ids[8], ids[7], ids[6]]
    whole = Row(tuple(first + second[3:]), (-1, 0, 1, 2, 3, 4, 5, 2, 7, 8), ((0, 6), (1, 9)), 0)
    expected = [forward.chains([first]).states[0], forward.chains([second]).states[0]]
    # What the end of the second sequence would be if it attended to all that stands before it in the row.
    decoy = forward.chains([first + second[3:]]).states[0, 7:]
    can = {"packing": False, "caching": False, "left": False}

    def trial(name: str, run: Callable[[], bool]) -> None:
        try:
            can[name] = run()
        except Exception as error:
            if is_out_of_memory(error):
                raise
            _log.debug("%s is not used for %s: %s", name, type(forward.model).__name__, error)

    def packs() -> bool:
        found = forward.trees([whole, Row(tuple(second[:4]), (-1, 0, 1, 2), ((0, 3),), 0)]).states
        other = found[0, [0, 1, 2, 7, 8, 9]]
        return (
            _same(torch, found[0, :7], expected[0])
            and _same(torch, other[:3], expected[1][:3])
            and _same(torch, other[3:], expected[1][3:], decoy)
            and _same(torch, found[1, :4], expected[1][:4])
        )

    def caches() -> bool:
        cache = forward.new_cache()
        forward.extend(ids[:2], cache)
        forward.extend(ids[2:5], cache)
        cache.crop(-2)
        rest = Row((*first[3:], *second[3:]), (-1, 0, 1, 2, -1, 4, 5), ((0, 3), (1, 6)), 3)
        right = True
        for _ in range(2):
            found = forward.over(rest, cache).states[0]
            right = right and _same(torch, found[:4], expected[0][3:])
            right = right and _same(torch, found[4:], expected[1][3:], decoy)
            cache.crop(-7)
        return right and cache.get_seq_length() == 3

    def pads_left() -> bool:
        side, forward.padding = forward.padding, "left"
        try:
            found = forward.chains([first, second[:4]]).states
        finally:
            forward.padding = side
        return _same(torch, found[0, :7], expected[0]) and _same(torch, found[1, :4], expected[1][:4])

    accepts = inspect.signature((forward.body or forward.model).forward).parameters
    if "position_ids" in accepts or any(p.kind is p.VAR_KEYWORD for p in accepts.values()):
        trial("packing", packs)
        if can["packing"] and head != "model":
            trial("caching", caches)
    trial("left", pads_left)
    found = Capabilities(
        head, transform, can["packing"], can["caching"], can["left"],
        _attention_weight(forward.model, forward.body), vocabulary,
    )  # fmt: skip
    _log.debug("%s: %s", type(forward.model).__name__, found)
    _examined[forward.model] = found
    return found

"""Stored predictions that are computed again: does this inference function still give them?

A run that reuses stored predictions computes a random sample of them again: about 30 (all if there are fewer), spread
over the parts of the run, and all 30 before the first new prediction. A run that is complete in the store does so too.
A prediction that differs by more than the tolerance that the kernel declares ends the run: the stored predictions are
not those of this inference function. If one in ten predictions changed, a sample of 30 shows it in 96 of 100 runs.

Where prompts are long, the sample is smaller: it has at most :data:`SHARE` of the characters of the prompts so far, or
:data:`FREE` characters, which cost next to nothing; but each part with reused predictions has one query of it.

A kernel without a tolerance (``None``), such as a server, may change its predictions. A difference is then a warning,
and a run that is complete in the store sends no request, unless its identity is unidentified, as by a patched method.
Nothing is rechecked by requests that may cost money, unless the user asks for it (:func:`rechecks`).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from StaICC.argument_syntax import argument_and_option
from StaICC.errors import IdentityError
from StaICC.inference.called_kernels import declarations
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.identity import Identity
from StaICC.inference.prompt_key import PromptKey, characters

TOLERANCE = 1e-6
"""Largest difference of a number, relative to numbers above 1, that a recheck accepts by default."""

SAMPLE = 30
"""Reused predictions that a run computes again, at least one in each part with reused ones."""

SHARE = 0.02
"""The largest share of the characters of all prompts that the sample has, if it has more than :data:`FREE`."""
FREE = 20_000
"""Characters of prompts, about 5,000 tokens, that are computed again whatever their share: 30 prompts of 666."""

NOT_RECHECKED = (
    "stored predictions were reused, and none was computed again for comparison, since requests to this server may "
    f"cost money; {argument_and_option('recheck', True)} does that"
)
"""The remark of a run whose recheck is off because of its price."""

_RANDOM = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One inference function in one run."""

    identity: Identity
    """Its identity at the start, verified at the end."""
    model_name: str | None
    """The name that the user gave it."""
    started: str
    """UTC, ISO 8601 with seconds."""
    finished: str
    """UTC, ISO 8601 with seconds."""
    counts: Counter[str]
    """As for :class:`RunCounter`."""
    editions: tuple[str, ...] = ()
    """The editions that served it, where it uses a server; empty if all predictions were reused."""
    replies: bool = False
    """Whether it returned replies, whose labels the parser found."""


def tolerance_of(function: Inference) -> float | None:
    """Return by how much the numbers of an inference function may differ when they are computed again.

    Args:
        function: The inference function. It, or a kernel that it calls, may declare ``recheck_tolerance``
            (:func:`declarations` finds them).

    Returns:
        The largest of the declared tolerances; :data:`TOLERANCE` if none is declared; ``None`` if one of them is
        ``None``: the predictions may change, as those of a server, so that a difference is only a warning.
    """
    declared_tolerances = declarations(function, "recheck_tolerance")
    if None in declared_tolerances:
        return None
    return max(declared_tolerances, default=TOLERANCE)


def may_cost_money(function: Inference) -> bool:
    """Return whether a function, or a kernel that it calls, sends requests that may have a price."""
    return any(declared is True for declared in declarations(function, "may_cost_money"))


def rechecks(function: Inference, setting: bool | None) -> bool:
    """Return whether reused predictions of an inference function are computed again.

    Args:
        function: The inference function.
        setting: What the user set; ``None`` for the default, which depends on the price.
    """
    if setting is not None:
        return setting
    return not may_cost_money(function)


def difference(first: object, other: object) -> float:
    """Return by how much two predictions of a query differ.

    For two lists of scores, it is the largest difference of two scores of one label, relative to the larger of these
    two if that is above 1. Where the lists have their largest score at different labels, the distance between the
    scores of these labels counts, too (:func:`_score_gap`).

    Args:
        first: A prediction: a number for each label, a label index, a text, or features.
        other: The other prediction.

    Returns:
        The difference. Of predictions that are not both lists of scores, it is 0 if they are equal, else infinity.
    """
    if not isinstance(first, list) or not isinstance(other, list) or len(first) != len(other):
        return 0.0 if first == other else math.inf
    largest = 0.0
    for first_number, other_number in zip(first, other, strict=True):
        # Equal infinities do not differ.
        if first_number != other_number:
            largest = max(largest, _relative_difference(first_number, other_number))
    if math.isinf(largest):
        return largest
    return max(largest, _score_gap(first, other), _score_gap(other, first))


def _score_gap(first: list[float], other: list[float]) -> float:
    """Return how clearly two predictions of one query name different labels; 0 if they name the same one.

    A prediction names the label with its largest score. Let ``s`` be the scores of the other prediction, and ``a`` the
    label that the first one names. The gap is::

        (max(s) - s[a]) / 2 / max(1, max(s) - min(s))

    Without it, scores such as 1000000.0 and 1000000.5 would count as equal, since they differ little relative to their
    size, although they decide which label is named. Half of the distance counts: two scores that were equal may have
    moved apart by the accepted difference each.

    Args:
        first: The scores of one prediction, one for each label.
        other: The scores of the other prediction.
    """
    label_of_first = first.index(max(first))
    distance = max(other) - other[label_of_first]
    if distance == 0:
        return 0.0
    score_range = max(other) - min(other)
    return distance / 2 / max(1.0, score_range)


def _relative_difference(first: float, other: float) -> float:
    """Return the absolute difference of two numbers; of numbers above 1, as a share of the larger one.

    If one of the numbers is infinite, so is the difference.
    """
    absolute_difference = abs(first - other)
    if not math.isfinite(absolute_difference):
        return math.inf
    return absolute_difference / max(1.0, abs(first), abs(other))


class ReusedPrediction(NamedTuple):
    """A prediction of the store that may be computed again."""

    key: PromptKey
    stored: Answer
    where: str
    """The place of its query, for messages."""


@dataclass(slots=True)
class RecheckBudget:
    """How many characters of prompts a run computes again. Several counters of one run may share it."""

    size: int = 0
    """Characters of the distinct prompts so far."""
    spent: int = 0
    """Characters of the prompts that were rechecked."""

    @property
    def left(self) -> float:
        """Characters that may still be computed again."""
        return max(SHARE * self.size, FREE) - self.spent


class RunCounter:
    """Counts the predictions of one inference function over a run, and chooses which stored ones are rechecked.

    To recheck a prediction is to compute it again and compare it with the stored one. A run has parts, such as the data
    sets of a benchmark.

    Attributes:
        counts: Number of predictions by what became of them: ``computed`` in this run (rechecked ones not counted),
            ``reused`` from the store, ``rechecked``, ``failed``; and ``retried`` requests, where the function counts
            them.
        replies: Whether a prediction is a reply, whose label the parser finds.
        tokens: Tokens that copies of the function read and generated in worker processes, where it counts them.
    """

    def __init__(
        self,
        tolerance: float | None = TOLERANCE,
        recheck: bool = True,
        done: int = 0,
        unidentified: bool = False,
        remark: str = "",
        budget: RecheckBudget | None = None,
    ) -> None:
        """Begin with counts of 0, and without predictions to recheck.

        Args:
            tolerance: By how much the scores of a rechecked prediction may differ from the stored ones. ``None``: the
                predictions may change, as those of a server, and a difference is only a warning.
            recheck: Whether to recheck reused predictions.
            done: How many predictions this run rechecked before.
            unidentified: Whether a function without a tolerance is rechecked even if all its predictions are stored.
            remark: What a run says that reuses predictions; empty for nothing.
            budget: The characters of prompts that may be rechecked; a new budget by default.
        """
        self.counts = Counter[str]()
        self.replies = False
        self.tokens = (0, 0)
        self._tolerance = tolerance
        self._recheck = recheck
        self._done = done
        """How many predictions the run rechecked so far."""
        self._unidentified = unidentified
        self.remark = remark
        self.budget = RecheckBudget() if budget is None else budget
        self._required_in_part = 0
        """Queries of this part that are rechecked whatever their prompts cost: one, if it has reused predictions."""
        self._candidates: list[ReusedPrediction] = []
        """The sample of reused predictions that are not rechecked yet, those of this part at the end."""

    def add(self, retried: int, read: int, generated: int) -> None:
        """Count what a copy of the function counted in a worker process: repeated requests, and tokens."""
        self.counts.update(retried=retried)
        read_before, generated_before = self.tokens
        self.tokens = (read_before + read, generated_before + generated)

    def include(self, other: RunCounter) -> None:
        """Add the counts of a counter that counted a part of this one's predictions, and shared its budget."""
        self.counts += other.counts
        self.replies |= other.replies

    def count_reused(
        self, stored: Mapping[PromptKey, Answer], where: Callable[[PromptKey], str], size: int = 0
    ) -> None:
        """Count predictions of a part that come from the store, and draw a random sample of them for the recheck.

        Those of the sample are candidates: :meth:`choose_for_recheck` takes some of them.

        Args:
            stored: The predictions.
            where: Returns the place of a query, for messages: "Normal, TREC, query 17".
            size: Characters of all distinct prompts of the part, stored or not. The budget is a share of them.
        """
        self.counts.update(reused=len(stored))
        self.budget.size += size
        self._required_in_part = 1 if stored else 0
        if not self._recheck:
            return
        sample_size = min(SAMPLE, len(stored))
        for key in _RANDOM.sample(list(stored), sample_size):
            self._candidates.append(ReusedPrediction(key, stored[key], where(key)))

    def choose_for_recheck(self, parts_left: int, computes_new: bool) -> list[ReusedPrediction]:
        """Return the reused predictions that are computed again in this part, for comparison with the stored ones.

        They are candidates of :meth:`count_reused`, those of this part first. Their number is limited
        (:meth:`_most_rechecks`), and so are the characters of their prompts (:attr:`budget`); but of a part with
        candidates, one is chosen whatever the limits are. None is chosen if nothing is to be rechecked, or if the
        predictions may change from call to call, and all of this part are stored.

        Args:
            parts_left: How many parts of the run are left, this one included.
            computes_new: Whether new predictions of this part will be computed.

        Returns:
            The chosen predictions, which are no candidates any more.
        """
        if not self._candidates:
            return []
        may_change = self._tolerance is None
        if may_change and not computes_new and not self._unidentified:
            # All predictions are stored, so the run needs no request to a server, and sends none.
            return []

        most_rechecks = self._most_rechecks(parts_left, computes_new)
        chosen: list[ReusedPrediction] = []
        not_chosen: list[ReusedPrediction] = []
        for candidate in reversed(self._candidates):  # those of this part are at the end
            prompt, _ = candidate.key
            size = characters(prompt)
            is_required = len(chosen) < self._required_in_part
            is_allowed = len(chosen) < most_rechecks and size <= self.budget.left
            if is_required or is_allowed:
                chosen.append(candidate)
                self.budget.spent += size
            else:
                not_chosen.append(candidate)
        self._candidates = list(reversed(not_chosen))
        self._done += len(chosen)
        return chosen

    def _most_rechecks(self, parts_left: int, computes_new: bool) -> int:
        """Return how many reused predictions are computed again in this part, if their prompts are short enough.

        A run rechecks :data:`SAMPLE` predictions. Before its first new prediction, these are all that are left of them:
        a difference should end the run before it computes anything new. Otherwise they are spread over the parts that
        are left. It is one at least in a part with reused predictions. Arguments as for :meth:`choose_for_recheck`.
        """
        left_of_sample = SAMPLE - self._done
        if computes_new:
            return max(self._required_in_part, left_of_sample)
        share_of_part = math.ceil(left_of_sample / max(1, parts_left))
        return max(self._required_in_part, share_of_part)

    def compare(self, query: PromptKey, stored: Answer, again: Answer, where: str) -> str | None:
        """Compare a prediction that was computed again with the stored one, and count it as rechecked.

        Args:
            query: Prompt and label space.
            stored: The stored prediction.
            again: The prediction that was computed again.
            where: The place of the query, for messages.

        Returns:
            A sentence, if it differs and the kernel's predictions may change; else ``None``.

        Raises:
            IdentityError: It differs from the stored one by more than the tolerance.
        """
        self.counts.update(rechecked=1)
        accepted_difference = TOLERANCE if self._tolerance is None else self._tolerance
        if difference(stored, again) <= accepted_difference:
            return None
        prompt, _ = query
        # In the noisy channel, a prompt has one text for each label.
        text = prompt if isinstance(prompt, str) else prompt[0]
        message = f"{where}: the store has {stored!r:.300} for the prompt that ends with {text[-60:]!r}"
        if self._tolerance is None:
            return f"{message}, computed again it is {again!r:.300}. This kernel's predictions may change"
        raise IdentityError(
            f"{message}, but computed again it is {again!r:.300} (accepted difference: {self._tolerance:g}). The "
            "stored predictions are not those of this inference function, or it is not deterministic. Use another "
            "store or model_name, or recheck=False to reuse them without this check"
        )

"""The experimentors of a benchmark as a sequence, and one inference function or prediction list for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from StaICC.errors import ArgumentError, unknown_name
from StaICC.frozen import FixedAttributes
from StaICC.inference import Inference


class _Experimentor(Protocol):
    @property
    def name(self) -> str: ...

    def get_label_space(self) -> list[str]: ...


_E = TypeVar("_E", bound=_Experimentor)


class ExperimentorList(FixedAttributes, Generic[_E]):
    """A benchmark as a sequence of experimentors, one for each data set.

    Attributes:
        experimentor: The experimentors, in order.
    """

    __slots__ = ("experimentor",)
    _assignable = ("experimentor",)
    experimentor: list[_E]

    def __len__(self) -> int:
        return len(self.experimentor)

    def __iter__(self) -> Iterator[_E]:
        return iter(self.experimentor)

    def __getitem__(self, index: int | str) -> _E:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            UnknownNameError: This benchmark has no such data set.
        """
        if not isinstance(index, str):
            try:
                return self.experimentor[index]
            except IndexError:
                known = ", ".join(self.dataset_names)
                raise IndexError(f"there is no data set {index}; this benchmark has {len(self)}: {known}") from None
        for experimentor in self.experimentor:
            if experimentor.name.casefold() == index.casefold():
                return experimentor
        raise unknown_name("data set in this benchmark", index, self.dataset_names)

    @property
    def dataset_names(self) -> list[str]:
        """The names of the data sets, in order."""
        return [experimentor.name for experimentor in self.experimentor]

    def get_experimentors(self) -> list[_E]:
        """Return the experimentors."""
        return self.experimentor

    def get_label_spaces_for_experimentors(self) -> list[list[str]]:
        """Return the label space of each data set."""
        return [experimentor.get_label_space() for experimentor in self.experimentor]

    def functions_for_datasets(
        self, functions: Inference | Sequence[Inference] | Mapping[str, Inference]
    ) -> Sequence[Inference]:
        """Return one inference function for each data set.

        Args:
            functions: One function for all data sets (or a list with it), a list with one for each, or a mapping by
                data set name.

        Raises:
            ArgumentError: A function is not callable, or there is not one for each data set.
        """
        if callable(functions):
            return [functions] * len(self)
        if isinstance(functions, Mapping):
            functions = self._by_name(functions, "inference functions")
        if isinstance(functions, (str, bytes)) or not isinstance(functions, Sequence):
            hint = (
                f". For a model by its name, pass load_kernel({functions!r:.80})" if isinstance(functions, str) else ""
            )
            raise ArgumentError(f"the inference function must be callable, not {type(functions).__name__}{hint}")
        if len(functions) not in (1, len(self)):
            raise ArgumentError(f"{len(functions)} inference functions given for {len(self)} data sets")
        for number, function in enumerate(functions):
            if not callable(function):
                raise ArgumentError(f"inference function {number} must be callable, not {type(function).__name__}")
        return functions if len(functions) == len(self) else [functions[0]] * len(self)

    def functions_and_predictions(self, functions: Any, predictions: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return an inference function and a list of predictions for each data set, of which one is ``None``.

        Args:
            functions: As for :meth:`functions_for_datasets`; ``None`` if predictions are given.
            predictions: As for :meth:`predictions_for_datasets`.

        Raises:
            ArgumentError: Both are given, or neither, or there is not one for each data set.
        """
        if functions is not None and predictions is not None:
            raise ArgumentError("got an inference function and preentered_prediction; give one of the two")
        chosen = [None] * len(self) if functions is None else self.functions_for_datasets(functions)
        given = self.predictions_for_datasets(predictions)
        for one, function, own in zip(self, chosen, given, strict=True):
            if function is None and own is None:
                raise ArgumentError(
                    "give an inference function (the function itself, not what it returns), a list with one for each "
                    f"data set, or preentered_prediction; {one.name} has neither"
                )
        return chosen, given

    @staticmethod
    def given_functions(by_position: Any, by_keyword: Any) -> Any:
        """Return the inference functions of a call, which have two names in 0.1.1.

        Raises:
            ArgumentError: Both are given.
        """
        if by_position is not None and by_keyword is not None:
            raise ArgumentError("got list_of_forward_inference and forward_inference, which mean the same; give one")
        return by_keyword if by_position is None else by_position

    def predictions_for_datasets(self, predictions: Sequence[Any] | Mapping[str, Any] | None) -> Sequence[Any]:
        """Return one list of predictions for each data set; ``None`` for each if there are none.

        Args:
            predictions: A list with one list for each data set, or a mapping by data set name.

        Raises:
            ArgumentError: There is not one list for each data set.
        """
        if predictions is None:
            return [None] * len(self)
        if isinstance(predictions, Mapping):
            return self._by_name(predictions, "preentered_prediction")
        if (
            isinstance(predictions, (str, bytes))
            or not hasattr(predictions, "__len__")
            or len(predictions) != len(self)
        ):
            raise ArgumentError(
                f"preentered_prediction needs one list of predictions for each of the {len(self)} data sets (a list "
                f"of {len(self)} lists), not {predictions!r:.60}"
            )
        return predictions

    def _by_name(self, values: Mapping[str, Any], what: str) -> list[Any]:
        missing = [name for name in self.dataset_names if name not in values]
        if missing or len(values) != len(self):
            raise ArgumentError(f"{what} needs exactly the data sets of this benchmark; lacks {missing}")
        return [values[name] for name in self.dataset_names]

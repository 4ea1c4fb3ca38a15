"""``StaICC.util.hgf_dataset_loader`` of 0.1.1: the ten data sets under the names of its classes."""

from __future__ import annotations

from StaICC.datasets.dataset import load_dataset
from StaICC.prompting.views import AllRows
from StaICC.removed import removed_names


class DatasetLoader(str):
    """The name of a data set, for ``datasets=[...]``; calling it loads all rows.

    Example:
        >>> trec, trec.lower()
        ('TREC', 'trec')
    """

    __slots__ = ()

    def __call__(self) -> AllRows:
        """Return all rows of the data set."""
        return AllRows(load_dataset(self))


glue_sst2 = DatasetLoader("GLUE-SST2")
rotten_tomatoes = DatasetLoader("rotten_tomatoes")
financial_phrasebank = DatasetLoader("financial_phrasebank")
sst5 = DatasetLoader("SST5")
trec = DatasetLoader("TREC")
agnews = DatasetLoader("AGNews")
subjective = DatasetLoader("Subjective")
tweet_eval_emotion = DatasetLoader("tweet_eval_emotion")
tweet_eval_hate = DatasetLoader("tweet_eval_hate")
hate_speech_18 = DatasetLoader("hate_speech_18")

_OWN_DATA = "StaICC.Dataset.from_rows(rows, name='...', label_space=[...])"

__getattr__ = removed_names(
    __name__,
    {
        "basic_datasets_loader": _OWN_DATA,
        "un_reducted_agnews": _OWN_DATA,
        "un_reducted_sst5": _OWN_DATA,
        "un_reducted_trec": _OWN_DATA,
        "un_reducted_tweet_eval_emotion": _OWN_DATA,
    },
)

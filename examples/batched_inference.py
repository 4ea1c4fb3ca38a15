# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Batched inference
#
# Most models are much faster with batches of prompts. There are three ways to evaluate many prompts at once:
# a `batch` attribute, `batched_inference=True`, and predictions that you computed elsewhere. The last part caches
# predictions in a store, so that an interrupted run can continue.

# %%
from StaICC import Identity, Normal, Suite

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
benchmark = Normal(datasets=DATASETS)


# %% [markdown]
# ## A `batch` attribute: each prediction depends on its own prompt only
#
# Use this for models. The library removes repeated prompts, splits the rest into chunks, and calls
# `batch(prompts=..., label_space=...)` for each. `identity` is the cache key of the predictions in a store:
# change it whenever they may change. This mock model counts its calls.


# %%
class WordOverlap:
    """Scores a label by the words that the query shares with the demonstrations of that label."""

    def __init__(self) -> None:
        self.calls = 0
        self.prompts = 0

    def identity(self) -> Identity:
        """Return what determines the predictions."""
        return Identity({"model": "word-overlap-v1"})

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        """Return the scores of one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        """Return the scores of many prompts."""
        self.calls += 1
        self.prompts += len(prompts)
        return [self.score(prompt, label_space) for prompt in prompts]

    @staticmethod
    def score(prompt: str, label_space: list[str]) -> list[float]:
        """Return a logit for each label."""
        *demonstrations, query = prompt.split("\n")
        words = set(query.lower().split())
        scores = dict.fromkeys(label_space, -40.0)  # negative numbers are known to be logits
        for line in demonstrations:
            text, _, label = line.rpartition(" ")
            scores[label] += 10 * len(words & set(text.lower().split())) / len(words)
        return list(scores.values())


model = WordOverlap()
result = benchmark(model)
print(result)
print(f"{model.prompts} prompts in {model.calls} calls")

# %% [markdown]
# The same model without `batch` gives the same scores, with one call for each prompt. A `functools.partial` of a
# function with `batch` also runs in batches.

# %%
single = WordOverlap()
one_by_one = benchmark(lambda prompt, label_space: single(prompt, label_space))
assert one_by_one["Divided results"] == result["Divided results"]
print(f"{single.prompts} prompts in {single.calls} calls")

# %% [markdown]
# ## `batched_inference=True`: predictions may depend on the complete list
#
# The function gets all prompts of a data set as one list, in order, as in 0.1.1. Use it if predictions depend on each
# other. Here the mean of all logits is subtracted, so that no label is preferred on average.
#
# Such predictions cannot be cached in a store, because each depends on the complete list.


# %%
def without_preference(prompt: list[str], label_space: list[str]) -> list[list[float]]:
    """Subtract the mean logits of the complete list."""
    rows = model.batch(prompt, label_space)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]


print(benchmark(without_preference, batched_inference=True))

# %% [markdown]
# ## `preentered_prediction`: existing predictions
#
# Pass one list of predictions for each data set, in the order of `prompt_set()`; no function is called. For predictions
# of another program, `python -m StaICC prompts` writes the prompts to a file, and `score` reads the predictions.

# %%
predictions = {data.name: model.batch(data.prompt_set(), data.get_label_space()) for data in benchmark}
given = benchmark(preentered_prediction=predictions)
assert given["Divided results"] == result["Divided results"]

# %% [markdown]
# ## A store: nothing is computed twice
#
# With `store=`, every prediction is written to disk before it counts as done. To show an interrupted run, this model
# fails after sixty prompts. The same call with a working model computes only the rest. (`recheck=False`: by default a
# few stored predictions are recomputed and compared.)


# %%
class Fragile(WordOverlap):
    """Fails after sixty prompts."""

    def identity(self) -> Identity:
        """Return the identity of the base class; by default, a subclass has its own."""
        return WordOverlap.identity(self)

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        """Return the scores of many prompts, until it fails."""
        if self.prompts >= 60:
            raise RuntimeError("out of memory (not really)")
        return super().batch(prompts, label_space)


fragile = Fragile()
try:
    benchmark(fragile, store="predictions.sqlite", chunk_size=20)
except Exception as error:
    print(f"{type(error).__name__}: {error}")

model = WordOverlap()
assert benchmark(model, store="predictions.sqlite", chunk_size=20, recheck=False) == result
print(f"{fragile.prompts} prompts before the failure, {model.prompts} after it")

# %% [markdown]
# Other benchmarks with the same prompts also use the store. `Suite` contains `Normal`, so it computes fewer prompts.

# %%
suite = Suite(datasets=DATASETS, limit=12)
alone, stored = WordOverlap(), WordOverlap()
assert suite(alone) == suite(stored, store="predictions.sqlite", recheck=False)
print(f"Suite: {alone.prompts} distinct prompts, {stored.prompts} of them not in the store")

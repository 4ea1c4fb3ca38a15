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
# Most models answer many prompts at once much faster than one after the other. There are three ways to hand over many
# prompts: a `batch` attribute, `batched_inference=True`, and answers that you computed elsewhere. Each fits another
# case. The last part keeps answers in a store, so that a run that was stopped goes on.

# %%
from StaICC import Normal, Suite

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
benchmark = Normal(datasets=DATASETS)


# %% [markdown]
# ## A `batch` attribute: each answer depends on its own prompt only
#
# This is the way for models. The library sorts out repeated prompts, cuts the rest into chunks, and calls
# `batch(prompts=..., label_space=...)` for each. `fingerprint` names the answers in a store: change it whenever they
# may change. This stand-in for a model counts its calls.


# %%
class WordOverlap:
    """Scores a label by the words that the query shares with the demonstrations of that label."""

    fingerprint = "word-overlap-v1"

    def __init__(self) -> None:
        self.calls = 0
        self.prompts = 0

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        """Answer one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        """Answer many prompts."""
        self.calls += 1
        self.prompts += len(prompts)
        return [self.score(prompt, label_space) for prompt in prompts]

    @staticmethod
    def score(prompt: str, label_space: list[str]) -> list[float]:
        """Give a logit for each label."""
        *demonstrations, query = prompt.split("\n")
        asked = set(query.lower().split())
        scores = dict.fromkeys(label_space, 0.0)
        for line in demonstrations:
            text, _, label = line.rpartition(" ")
            scores[label] += 10 * len(asked & set(text.lower().split())) / len(asked)
        return list(scores.values())


model = WordOverlap()
result = benchmark(model)
print(result)
print(f"{model.prompts} prompts in {model.calls} calls")

# %% [markdown]
# The same model without `batch` gives the same result, with one call for each prompt. A `functools.partial` of a
# function that has `batch` is recognised too.

# %%
single = WordOverlap()
assert benchmark(lambda prompt, label_space: single(prompt, label_space)) == result
print(f"{single.prompts} prompts in {single.calls} calls")

# %% [markdown]
# ## `batched_inference=True`: answers may depend on the whole list
#
# The function gets all prompts of a data set as one list, in order, as in 0.1.1. Use it where an answer depends on its
# neighbours. Here the mean of all answers is subtracted, so that no label is preferred on the whole.
#
# Such answers cannot be kept in a store one by one, since each belongs to its list.


# %%
def without_preference(prompt: list[str], label_space: list[str]) -> list[list[float]]:
    """Subtract the mean logits of the whole list."""
    rows = model.batch(prompt, label_space)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]


print(benchmark(without_preference, batched_inference=True))

# %% [markdown]
# ## `preentered_prediction`: answers from elsewhere
#
# Give one list of answers for each data set, in the order of `prompt_set()`, and no function is called at all. Another
# program can answer too: `python -m StaICC prompts` writes the prompts to a file, `score` reads the answers.

# %%
answers = {one.name: model.batch(one.prompt_set(), one.get_label_space()) for one in benchmark}
assert benchmark(preentered_prediction=answers) == result

# %% [markdown]
# ## A store: nothing is asked twice
#
# With `store=`, every answer is on the disk before it counts. To stop in the middle on purpose, this model fails after
# sixty prompts. The same call with a model that works asks only for the rest.


# %%
class Fragile(WordOverlap):
    """Breaks down after sixty prompts."""

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        """Answer many prompts, for a while."""
        if self.prompts >= 60:
            raise RuntimeError("out of memory (not really)")
        return super().batch(prompts, label_space)


fragile = Fragile()
try:
    benchmark(fragile, store="answers.sqlite", chunk_size=20)
except Exception as error:
    print(f"{type(error).__name__}: {error}")

model = WordOverlap()
assert benchmark(model, store="answers.sqlite", chunk_size=20) == result
print(f"{fragile.prompts} prompts before the failure, {model.prompts} after it")

# %% [markdown]
# Other benchmarks that ask the same prompts find them in the store. A suite contains `Normal`, so it asks that much
# less.

# %%
suite = Suite(datasets=DATASETS, limit=12)
alone, stored = WordOverlap(), WordOverlap()
assert suite(alone) == suite(stored, store="answers.sqlite")
print(f"Suite: {alone.prompts} different prompts, {stored.prompts} of them not in the store")

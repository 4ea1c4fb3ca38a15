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
# # The noisy channel: how likely is the text, given the label?
#
# Usually a model is asked for the label that follows a text. The noisy channel (Min et al. 2022) turns that round: the
# label stands first, and the label that makes the text most likely wins. This notebook shows the prompts of both ways,
# runs both, and writes the second one out by hand.

# %%
import math
import os

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError
from StaICC.results.comparison_formats import compare_all

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf
kernel = load_kernel(MODEL)

# %% [markdown]
# ## The prompts
#
# The direct way has one prompt for each query. The noisy channel has a *list*, one text for each label, which differ in
# the label before the last text and in nothing else.

# %%
direct = Normal(k=2, datasets=DATASETS)
noisy = Normal(k=2, datasets=DATASETS, noisy_channel=True)
print("direct:\n" + direct[0].prompt_set()[0])
prompts = noisy[0].prompt_set()[0]
print(f"\nnoisy channel, the first of {len(prompts)}:\n{prompts[0]}")
print("the last lines of all:")
print("".join(prompt.rstrip("\n").rsplit("\n", 1)[1] + "\n" for prompt in prompts))

# %% [markdown]
# ## Both ways
#
# The score of a label is the log-probability of the query's text after it, and nothing else of the prompt: the
# demonstrations are the same for all labels. The softmax over the labels makes probabilities of the scores. (Release
# 0.1.1 took the mean loss over the whole prompt instead; local models still do so with `variant="0.1.1"`.)

# %%
of_direct, of_noisy = direct(kernel), noisy(kernel)
print(of_direct)
print(of_noisy)

# %% [markdown]
# The signatures differ in the channel and in the digest of the prompts. So the two were not asked the same, and a
# comparison in pairs is refused with the reason rather than made in silence.

# %%
try:
    compare_all({"direct": of_direct, "noisy": of_noisy})
except ArgumentError as error:
    print(error)

# %% [markdown]
# ## A function of your own
#
# An inference function for this channel gets the list as its prompt and returns one number for each label. Here the
# texts are scored by a language model of a few lines: it counts which words follow which. The score is the sum of the
# log-probabilities of the query's words, with each demonstration weighed only if it has the label that is tried.


# %%
def words_given_label(prompt: list[str], label_space: list[str]) -> list[float]:
    """Score the query's words by the words of the demonstrations that have the label."""
    scores = []
    for text, label in zip(prompt, label_space, strict=True):
        *lines, query = [line.split(": ", 2)[1:] for line in text.strip().split("\n")]
        # each line reads "topic: LABEL sentence: WORDS": the label with the next prefix, then the words
        known = [word for head, words in lines if head.startswith(label) for word in words.lower().split()]
        asked = query[1].lower().split()
        scores.append(sum(math.log((known.count(word) + 0.5) / (len(known) + 500)) for word in asked))
    return scores


print(noisy(words_given_label) if DATASETS == ["mini"] else "This function reads the template of mini only.")

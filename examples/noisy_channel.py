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
# Usually a model predicts the label after a text (direct channel). In the noisy channel (Min et al. 2022), the label
# comes first, and the predicted label is the one with the highest likelihood of the text. This notebook shows the
# prompts of both channels, runs both, and implements the noisy channel by hand.

# %%
import math
import os

from StaICC import Normal, compare, load_kernel

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf
kernel = load_kernel(MODEL)

# %% [markdown]
# ## The prompts
#
# The direct channel has one prompt for each query. The noisy channel has a *list* with one prompt for each label; they
# differ only in the label before the last text.

# %%
direct = Normal(k=2, datasets=DATASETS)
noisy = Normal(k=2, datasets=DATASETS, noisy_channel=True)
print("direct:\n" + direct[0].prompt_set()[0])
prompts = noisy[0].prompt_set()[0]
print(f"\nnoisy channel, the first of {len(prompts)}:\n{prompts[0]}")
print("the last lines of all:")
print("".join(prompt.rstrip("\n").rsplit("\n", 1)[1] + "\n" for prompt in prompts))

# %% [markdown]
# ## Both channels
#
# The score of a label is the log-probability of the query text after it. The rest of the prompt is not scored, because
# the demonstrations are the same for all labels. The softmax over the labels gives probabilities. (Release
# 0.1.1 used the mean loss over the complete prompt; local models do so with `variant="0.1.1"`.)

# %%
of_direct, of_noisy = direct(kernel), noisy(kernel)
print(of_direct)
print(of_noisy)

# %% [markdown]
# Both runs have the same test examples, so they can be compared in pairs; the differences of their settings are listed.

# %%
print(compare(of_direct, of_noisy))

# %% [markdown]
# ## A function of your own
#
# An inference function for this channel gets the list as its prompt and returns one score for each label. This one
# is a unigram language model in a few lines. The score of a label is the sum of the
# log-probabilities of the query's words, estimated from the demonstrations with that label.


# %%
def words_given_label(prompt: list[str], label_space: list[str]) -> list[float]:
    """Score the query's words by the words of the demonstrations that have the label."""
    scores = []
    for text, label in zip(prompt, label_space, strict=True):
        *lines, query = [line.split(": ", 2)[1:] for line in text.strip().split("\n")]
        # each line reads "topic: LABEL sentence: WORDS": the label with the next prefix, then the words
        known = [word for head, words in lines if head.startswith(label) for word in words.lower().split()]
        words = query[1].lower().split()
        scores.append(sum(math.log((known.count(word) + 0.5) / (len(known) + 500)) for word in words))
    return scores


print(noisy(words_given_label) if DATASETS == ["mini"] else "This function reads the template of mini only.")

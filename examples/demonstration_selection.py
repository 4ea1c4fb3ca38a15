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
# # Choosing demonstrations, their order, and the instruction
#
# The benchmark draws demonstrations at random, the same for everybody. Three methods of the paper's Table 2 choose
# instead: TopK takes the nearest demonstrations, SA-ICL also the order that makes the model surest, PPL-ICL the
# instruction that the model finds most natural. This notebook runs them, shows what they chose, and writes a choice by
# hand.
#
# They look inside the model, so they need `pip install '.[hf]'`. By default the model is tiny and random, made on the
# spot: nothing is fetched, and its figures mean nothing.

# %%
import os

from StaICC import Normal, load_kernel
from StaICC.prefabricate_inference.methods import Method, run_all

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
INSTRUCTIONS = None if DATASETS is None else [  # the ten have theirs
    "What is the sentence about? ",
    "Name the topic of the sentence. ",
    "Which topic does the sentence belong to? ",
]  # fmt: skip
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "")  # "smollm2", "hf:gpt2", ...
benchmark = Normal(k=2, datasets=DATASETS, limit=8)

if MODEL:
    kernel = load_kernel(MODEL)
else:
    from tiny_model import tiny_kernel  # the file beside this one

    kernel = tiny_kernel()

# %% [markdown]
# ## Three methods beside plain inference
#
# The cost columns count what a method was given beforehand (texts that were encoded, instructions that were tried) and
# the prompts that it asks: SA-ICL asks ten orders for each query (for `k=2` there are only six different ones).

# %%
table = run_all(
    kernel,
    benchmark,
    methods=["vanilla", "topk", "sa_icl", "ppl_icl"],
    calibration_number=16,
    options={"instructions": INSTRUCTIONS},
)
print(table)

# %% [markdown]
# ## What TopK chose
#
# `prepare` makes a method ready for one data set, without changing the experimentor that it is given. Its view is an
# experimentor with the demonstrations that were chosen, nearest first. "Near" means the distance of the model's last
# hidden states, so with a random model it means texts of like letters.

# %%
one = benchmark[0]
chosen = Method("topk", kernel).prepare(one).views[0]
print("random: ", one.prompt_set()[0], "", "nearest:", chosen.prompt_set()[0], sep="\n")

# %% [markdown]
# ## Which instruction PPL-ICL chose
#
# Of the candidates it takes the one under which the calibration prompts have the lowest mean perplexity.

# %%
ppl_icl = Method("ppl-icl", kernel, calibration_number=16, instructions=INSTRUCTIONS)
print(ppl_icl.prepare(one).views[0].prompt_former.get_config_dict()["instruction"])

# %% [markdown]
# ## A choice by hand
#
# `set_demonstration_sampler` takes, for each test row, the positions of its demonstrations in the demonstration set.
# Here: those that share the most words with the query, the nearest last. Look at inputs only; the labels of test rows
# must not take part.


# %%
def words(texts: list[str]) -> set[str]:
    """Give the words of a row's input texts."""
    return {word.strip(".,!?").lower() for text in texts for word in text.split()}


by_hand = Normal(k=2, datasets=DATASETS, limit=8)
for experimentor in by_hand:
    demonstrations = [words(texts) for texts, _ in experimentor.demonstration_set()]
    lists = []
    for texts, _ in experimentor.test_set():
        asked = words(texts)
        order = sorted(range(len(demonstrations)), key=lambda place: len(asked & demonstrations[place]))
        lists.append(order[-experimentor.get_k() :])
    experimentor.set_demonstration_sampler(lists)

print(by_hand[0].prompt_set()[0])
result = by_hand(kernel)
print(result)

# %% [markdown]
# The signature says that the demonstrations are not the benchmark's, so this result cannot be taken for one of it.
# `experimentor.reset_demonstration_sampler()` goes back.

# %%
print(result.signature.fields["demonstrations"])

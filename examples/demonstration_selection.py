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
# The benchmark draws demonstrations at random, with a fixed seed. Three methods of the paper's Table 2 choose them
# instead: TopK takes the nearest demonstrations, SA-ICL also the order with the most confident prediction, and PPL-ICL
# the instruction with the lowest perplexity. This notebook runs them, shows their choices, and makes a choice by hand.
#
# They use internals of the model, so they need `pip install '.[hf]'`. By default the model is tiny and random: nothing
# is downloaded, and its scores are meaningless.

# %%
import os

from StaICC import Method, Normal, load_kernel, run_all

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
INSTRUCTIONS = None if DATASETS is None else [  # the ten data sets have their own
    "What is the sentence about? ",
    "Name the topic of the sentence. ",
    "Which topic does the sentence belong to? ",
]  # fmt: skip
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "")  # "smollm2", "hf:gpt2", ...
benchmark = Normal(k=2, datasets=DATASETS, limit=8)

if MODEL:
    kernel = load_kernel(MODEL)
else:
    from tiny_model import tiny_kernel  # examples/tiny_model.py

    kernel = tiny_kernel()

# %% [markdown]
# ## Three methods and plain inference
#
# The cost columns count the training (encoded texts, tried instructions) and the evaluated
# prompts: SA-ICL evaluates ten different orders for each query.

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
# ## The choice of TopK
#
# `prepare` prepares a method for one data set, without changing the experimentor. It returns an
# experimentor with the chosen demonstrations, nearest first. The distance is that of the model's last
# hidden states, so with a random model, texts with similar letters are near.

# %%
one = benchmark[0]
chosen = Method("topk", kernel).prepare(one)
print("random: ", one.prompt_set()[0], "", "nearest:", chosen.prompt_set()[0], sep="\n")

# %% [markdown]
# ## The choice of PPL-ICL
#
# PPL-ICL takes the instruction with the lowest mean perplexity of the calibration prompts.

# %%
ppl_icl = Method("ppl-icl", kernel, calibration_number=16, instructions=INSTRUCTIONS)
print(ppl_icl.prepare(one).prompt_former.get_config_dict()["instruction"])

# %% [markdown]
# ## A choice by hand
#
# `set_demonstration_sampler` takes the positions in the demonstration set for each test example. Here we take those
# that share the most words with the query, the nearest last. Use the input texts only, never the labels of the test
# examples.


# %%
def words(texts: list[str]) -> set[str]:
    """Return the words of a row's input texts."""
    return {word.strip(".,!?").lower() for text in texts for word in text.split()}


by_hand = Normal(k=2, datasets=DATASETS, limit=8)
for experimentor in by_hand:
    demonstrations = [words(texts) for texts, _ in experimentor.demonstration_set()]
    lists = []
    for texts, _ in experimentor.test_set():
        query = words(texts)
        order = sorted(range(len(demonstrations)), key=lambda place: len(query & demonstrations[place]))
        lists.append(order[-experimentor.get_k() :])
    experimentor.set_demonstration_sampler(lists)

print(by_hand[0].prompt_set()[0])
result = by_hand(kernel)
print(result)

# %% [markdown]
# The signature records that the demonstrations were changed. `experimentor.reset_demonstration_sampler()` restores
# them.

# %%
print(result.signature.fields["demonstrations"])

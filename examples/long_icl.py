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
# # LongICL: many labels, long contexts
#
# LongICL has 28 to 174 labels in one to five *rounds*; each round adds one demonstration of every label. The data sets
# have their own licences, so you must download the files yourself (`docs/long_icl.md` says from where). This notebook
# does not need them: it writes **synthetic** rows in the published formats, to show how to run the benchmark. Its
# scores are meaningless.

# %%
import csv
import os
from pathlib import Path

from StaICC import (
    Experiment,
    LongICL,
    compare_with_published,
    format_published,
    load_kernel,
    parse_answer,
    task_card,
)

MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf
DATA = Path(
    "made_up_data"
)  # None: what `python -m StaICC data install long-icl` put in its place; then skip the next cell

# %% [markdown]
# ## Synthetic files
#
# BANKING77 is published as CSV with the header `text,category`, Discovery as tab-separated lines of two sentences, a
# label and a number. Other rows than the published ones are refused or reported unless `verify=False`, and results
# record that they are others.

# %%
DATA.mkdir(exist_ok=True)
for split, turns in (("train", 5), ("test", 2)):
    with open(DATA / f"banking77_{split}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "category"])
        for turn in range(turns):
            for label in task_card("banking77").labels:
                topic = label.replace("_", " ").lower()
                writer.writerow([f"Made-up {split} question {turn} about {topic}", label])
    with open(DATA / f"discovery_{split}.tsv", "w", encoding="utf-8", newline="") as file:
        file.write("sentence1\tsentence2\tlabel\tidx\n")
        for number, label in enumerate(task_card("discovery").labels * turns):
            file.write(f"Made-up {split} sentence {number}.\tAnother one.\t{label}\t{number}\n")

# %% [markdown]
# ## How long is a context?
#
# All queries of a round share one context. To measure its length first, `longest_prompts` takes any function of a
# text, such as the number of tokens. Here it is the number of characters.

# %%
benchmark = LongICL(DATA, ["banking77", "discovery"], rounds=(1, 2), limit=77, verify=False)
for one in benchmark:
    print(one.name, len(one.get_label_space()), "labels, characters by round:", one.longest_prompts(len))
print(benchmark["banking77"].prompt_set()[0][-479:])

# %% [markdown]
# ## Run it
#
# A function returns a text (which is parsed as in the paper), a label index, or a score for each label. A
# kernel chooses among the labels. That is easier than generating a label, and the result records it. Labels with many
# tokens need `label_scoring="full"`.

# %%
options = {} if MODEL == "ppm" else {"label_scoring": "full"}
result = benchmark(load_kernel(MODEL, **options))
print(result)
result.save("long_icl.json")

# %% [markdown]
# The notes below the table say that the files are not the published ones. `majority` is the accuracy of the most
# frequent label.

# %% [markdown]
# ## Predictions as text
#
# In the published runs, the model generates text, which must equal the label exactly. `parsing="library"`, the
# default of own data and experiments, reads sentences and ignores a full stop or quotation marks. This function
# copies the label of the demonstration that shares the most words with the query (with the cues of BANKING77), which is
# easy with synthetic rows. Then it adds a full stop.


# %%
def copies(prompt: str, label_space: list[str]) -> str:
    """Write the label of the most similar demonstration, with a full stop; without demonstrations, the first label."""
    *demonstrations, query = prompt.split("service query: ")[1:]
    if not demonstrations:
        return label_space[0]
    asked = set(query.split("\n")[0].split())
    nearest = max(demonstrations, key=lambda text: len(asked & set(text.split("\n")[0].split())))
    return nearest.split("intent category: ")[1].strip() + "."


for parsing in ("published", "library"):
    written = LongICL(DATA, ["banking77"], rounds=[1], limit=77, parsing=parsing, verify=False)
    print(parsing, written(copies)["Divided results"]["banking77"]["1R"])

# %% [markdown]
# ## What does the context do?
#
# An experiment compares contexts for the same test items. The controls show whether a model reads the demonstrations: a
# function that copies follows shuffled labels and symbols, a model that uses what it knew before does not.

# %%
controls = Experiment("controls", shots=2)
print(LongICL(DATA, ["banking77"], limit=77, experiment=controls, verify=False)(copies))

# %% [markdown]
# `parse_answer` is the parser.

# %%
item = benchmark["banking77"].test_items[0]
for answer in ("activate_my_card", "activate_my_card."):
    print(repr(answer), "->", repr(parse_answer("banking77", answer, item)))

# %% [markdown]
# ## Comparison with the published tables
#
# Published figures are shown only next to runs that are comparable with them. This run is not: its rows are synthetic,
# it chooses among labels, and it has few test items. The comparison names the first of these reasons.

# %%
print(format_published(compare_with_published(result)))

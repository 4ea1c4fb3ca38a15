"""The description on a package index: README.md without links to files of the repository."""

import re
from pathlib import Path

from setuptools import setup

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
readme = re.sub(r"!\[[^\]]*\]\((?!\w+:)[^)]*\)\n*|<!--.*?-->\n*", "", readme)
readme = re.sub(r"\[([^\]]*)\]\((?!\w+:|#)[^)]*\)", r"\1", readme)
setup(long_description=readme, long_description_content_type="text/markdown")

"""The results of :mod:`tests.results.conftest`, to compare."""

from __future__ import annotations

from tests.results.conftest import group as group
from tests.results.conftest import make_model as make_model
from tests.results.conftest import partial as partial
from tests.results.conftest import result as result

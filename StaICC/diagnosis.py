"""``StaICC.diagnosis`` of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.compat import GLER as GLER
from StaICC.compat import Contextual_bias as Contextual_bias
from StaICC.compat import Demo_sens as Demo_sens
from StaICC.compat import Domain_bias as Domain_bias
from StaICC.compat import Post_bias as Post_bias
from StaICC.compat import Template_sens as Template_sens
from StaICC.compat import Triplet_bias as Triplet_bias

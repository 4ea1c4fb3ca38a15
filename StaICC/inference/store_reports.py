"""What the prediction store says about itself: counts of its contents, and what came of a merge or a salvage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from StaICC.inference.store_format import IDENTITY, QUARANTINE


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a store holds of one model."""

    fingerprint: str | None
    """The name of the model, which begins with its identity; ``None`` if only its digest is left (after a salvage)."""

    digest: str
    """The digest of the fingerprint that its rows carry, in hexadecimal."""

    answers: int
    """How many answers are stored."""

    damaged: int | None
    """How many of them fail their checksum; ``None`` without ``verify``."""

    @property
    def limits(self) -> str | None:
        """Why runs do not use these answers; ``None`` if they do."""
        if self.fingerprint is None or self.fingerprint.startswith(IDENTITY):
            return None
        if self.fingerprint.startswith(QUARANTINE):
            return "quarantined: the inference function changed during the run; not used"
        return "stored without an identity by an older version; not used"


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store holds."""

    path: Path
    """The file."""

    schema: int
    """The schema number of the file."""

    size_bytes: int
    """Bytes on the disk, the write-ahead log included."""

    models: tuple[ModelInfo, ...]
    """One entry for each model, by fingerprint."""

    @property
    def answers(self) -> int:
        """How many answers are stored, over all models."""
        return sum(model.answers for model in self.models)

    @property
    def damaged(self) -> int | None:
        """How many answers fail their checksum, over all models; ``None`` without ``verify``."""
        counts = [model.damaged for model in self.models if model.damaged is not None]
        return sum(counts) if len(counts) == len(self.models) else None


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What came of merging another store into this one."""

    added: int
    """Answers that this store did not have."""

    present: int
    """Answers that both had, and that were equal."""

    different: int
    """Answers that both had, and that differed: this store kept its own."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was saved from a damaged store."""

    path: Path
    """The new store."""

    answers: int
    """Answers saved."""

    models: tuple[str, ...]
    """Fingerprints of the models whose names were saved."""

    unnamed: int
    """Models whose name was lost. Their predictions are saved; a run of the same model finds them."""

    problem: str | None = None
    """SQLite's message if it could not read the whole file; rows may be missing then. ``None`` if it could."""

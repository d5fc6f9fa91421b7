# SPDX-License-Identifier: Apache-2.0
"""The seal of running totals: each step is bound to all steps before it (docs/behind/running.md).

The noise of a step lies on a sum over all counts so far. So a digest of the step's own counts is
not enough: with it, whoever changes an old step gets the exact difference. A chain of digests goes
into the key of each block, with the digest of the very copy that gets the noise.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from blake3 import blake3

from dpfast.errors import OtherInputError
from dpfast.noise.release import seal as seals
from dpfast.noise.release.blocks import BLOCK, Blocks
from dpfast.noise.release.names import words_of
from dpfast.noise.release.secret import Labelled, encode, keyed, warn_insecure

if TYPE_CHECKING:
    import numpy.typing as npt

Found = TypeVar("Found")

STEPS = "steps"  # the kind of its manifest
COUNTS, UNITS = "counts", "units"  # columns of the digests of what came in; what gets noise has no name


class Stepping:
    """The seal of running totals under one label: its chain, its tags, and the keys of its noise.

    Step 0 is the reservation: it has no counts and no noise.
    """

    def __init__(self, key: Labelled, manifest: seals.Manifest) -> None:
        self.key, self.manifest, self._encoded = key, manifest, manifest.encoded()
        self._digesting = blake3(key=key._keyed("block digest"), max_threads=1)  # noqa: SLF001  a seal's own door
        self.chain_0 = key._keyed("chain", encode(self._encoded))  # noqa: SLF001
        self.tag_0 = key._keyed("tag", encode(self._encoded))  # noqa: SLF001

    @classmethod
    def of(cls, key: Labelled, totals: Any, names: Any, how: Mapping[str, Any]) -> Stepping:
        """names: public, in the order of the cells. how: terms of how counts are made.

        Raises: DTypeError, ParameterError.
        """
        terms = tuple(sorted({**totals.terms(), **how}.items()))
        return cls(key, seals.manifest(key.label, {"": totals.mechanism}, STEPS, domain=names, terms=terms))

    def chain(
        self, before: bytes, t: int, counts: npt.NDArray[np.int64], units: npt.NDArray[np.uint64] | None = None
    ) -> bytes:
        """The chain of step t, from that of the step before it and its own frozen counts.

        units: those that are counted, where rows are.
        """
        digests = [
            self.digest(COUNTS, j, [*words_of(counts[at : at + BLOCK])])
            for j, at in enumerate(range(0, counts.size, BLOCK))
        ]
        if units is not None:
            digests.append(self.digest(UNITS, 0, [np.ascontiguousarray(units, "<u8").reshape(-1).view(np.uint8)]))
        return self.key._keyed("chain", encode(before, t, *digests))  # noqa: SLF001

    def digest(self, column: str, block: int, fields: list[Any]) -> bytes:
        return seals.block_digest(self._digesting.copy(), column, block, fields)

    def tag(self, t: int, chain: bytes, digests: list[bytes]) -> bytes:
        """What a ledger keeps of a step. digests: of the blocks that get the noise."""
        return self.key._keyed("tag", encode(self._encoded, t, chain, *digests))  # noqa: SLF001

    def point(self, t: int, chain: bytes, block: int, digest: bytes) -> bytes:
        """Where a block's stream key is taken from. digest: that of the copy which gets noise."""
        return encode(t, chain, block, digest)

    def seal(self, mechanism: Any) -> seals.Seal:
        """What the record of this process has of the label: no step of it yet."""
        return seals.Seal(self.key, {"": mechanism}, self.manifest, {})

    def compare_here(self, t: int, tag: bytes, *, note: bool) -> None:
        """Refuse another input than this process took step t with, whoever paid.

        note: this is the one, if there was none. Fixed keys are exempt. Raises: OtherInputError.
        """
        step, label = f"{self.key.id} {t}", self.key.label
        known = seals.noted(step, self.manifest, tag) if note and self.key.secure else seals.known_here(step)
        if known is not None and not hmac.compare_digest(known[1], tag):
            raise OtherInputError(
                f"{label!r}: the input is not the one with which step {t} was reserved in this process, or an earlier step is "
                f"another: other counts are a new release under {seals.another(label)}. That it is another, or is not, is for "
                "its holder alone, and never published"
            )

    def mac(self) -> blake3:
        """What makes the code of a file of state, once it was fed with all that it holds."""
        return blake3(key=self.key._keyed("running state", self._encoded), max_threads=1)  # noqa: SLF001

    def noised(
        self,
        mechanism: Any,
        t: int,
        chain: bytes,
        encoded: npt.NDArray[np.int64],
        reserve: Callable[[bytes], None],
    ) -> npt.NDArray[np.int64]:
        """The encoded totals of step t with their noise.

        reserve: is told the step's tag before anything is drawn, and raises unless it is paid for.
        """
        noisy: npt.NDArray[np.int64] = mechanism._release(encoded, key=_Step(self, t, chain, reserve))  # noqa: SLF001
        return noisy


class _Step(seals.Task):
    """Seals, reserves and draws one step."""

    def __init__(self, stepping: Stepping, t: int, chain: bytes, reserve: Callable[[bytes], None]) -> None:
        self._stepping, self._t, self._chain, self._reserve = stepping, t, chain, reserve

    def take(self, blocks: Blocks) -> None:
        mine, t, chain = self._stepping, self._t, self._chain
        found = blocks.digests(lambda j, fields: mine.digest("", j, fields))
        self._reserve(mine.tag(t, chain, found))
        secret = mine.key._keyed("running", encode(mine._encoded))  # noqa: SLF001

        def key_of(j: int, digest: bytes) -> bytes:
            if not hmac.compare_digest(digest, found[j]):
                raise OtherInputError(f"{mine.manifest.label!r}: the totals were written while step {t} was drawn")
            return keyed(secret, "stream key", mine.point(t, chain, j, digest))

        blocks.draw(key_of, lambda j, fields: mine.digest("", j, fields))


# ------------------------------------------------------------------ the record of this process


class Here:
    """What a ledger does for steps, where nobody pays: a record of this process compares them."""

    def __init__(self, seal: Stepping, mechanism: Any, *, resume: bool) -> None:
        """Raises: KeyReuseError (reserved here without resume=True, or for another release)."""
        self._seal = seal
        seals.reserve_here(seal.seal(mechanism), resume=resume)
        if not seal.key.secure:
            warn_insecure("a release")

    def last(self) -> tuple[int, bytes]:
        return 0, self._seal.tag_0

    def reserve(self, t: int, tag: bytes, before: bytes, ahead: Callable[[], object]) -> None:
        """Raises: OtherInputError, by what a step that is not there is begun with."""
        del t, tag, before
        ahead()

    def locked(self, call: Callable[[], Found]) -> Found:
        return call()

# SPDX-License-Identifier: Apache-2.0
"""What running totals spend: how far one unit moves all encoded steps together, in intervals.

C is the lower triangular Toeplitz matrix with c_0 = 1 and c_k = sum over i of w_i theta_i^(k-1) for
k >= 1, where theta_i = 1 - m_i/2^s_i and w_i = a_i/2^b_i: ratios of integers, which are the only
coefficients there are. Step t of a stream x publishes E(x)_t + N_t, N_t discrete Gaussian noise of
sigma^2 in each cell, where E(x)_t is an integer and |E(x)_t - 2^f (Cx)_t| <= r in each cell.

1. One step. Given all that came before, neighbours' encodings of step t lie d_t apart, integers in
   each cell. So this step alone is d_t^2/(2 sigma^2)-zCDP [CKS20, Theorem 4].
2. All steps. Let the squares of d_t add up to at most D^2 on every path of outputs, also if each
   x_t is chosen after all earlier outputs. With L_t the loss of the first t steps, exp((a - 1) L_t
   - a (a - 1) (d_1^2 + ... + d_t^2)/(2 sigma^2)) is a supermartingale for every order a > 1, by
   1. So the Renyi divergence of order a of all steps is at most a D^2/(2 sigma^2), and all steps
   together are rho-zCDP with rho = D^2/(2 sigma^2). Source: Feldman, Zrnic 2021; [BS16] for a
   fixed order of steps.
3. The encoder is a function of the inputs of a cell. Let one unit contribute in steps t_1 < t_2 <
   ..., at most m of them, k or more apart, and change the counts of step t_j by a vector of norm l2
   or less in at most l0 cells. Where no input of a cell changes, its encodings are equal. In the
   other cells, at most m l0, they differ by 2^f C (x - x') and by at most 2 r more, at each of n
   steps. So D <= 2^f |C (x - x')| + 2 r sqrt(n m l0).
4. The columns of C have inner products >= 0, since c >= 0. So |C (x - x')| <= l2 |sum of the
   columns t_1, t_2, ...|, whatever directions the changes have.
5. The sum of m columns, k apart, is longest if the first is column 0 and the others follow as
   closely as they may: columns 0, k, 2 k, .... The inner product of the columns s < t is the sum of
   c_i c_(i + t - s) over 0 <= i < n - t. If t falls, terms >= 0 are added; if t - s falls, no term
   does, for c does not grow. The j-th step is (j - 1) k or more, and the j-th and the i-th are (j -
   i) k or more apart, so each inner product is at most that of the columns (i - 1) k and (j - 1) k.
   Fewer columns have a shorter sum. Source: Kalinin, Lampert 2024, Theorem 2.
   That c >= 0 does not grow is seen from the integers: every w_i > 0, every theta_i lies within (0,
   1), and c_1 = sum of w_i <= c_0 = 1.
6. Substitution. What a unit contributes before and after stands in steps of its own: two sets of m
   steps, and 2 m l0 cells. Contributions >= 0 have C v and C w >= 0, so |C (v - w)|^2 <= |C v|^2 +
   |C w|^2, and signed ones |C (v - w)| <= |C v| + |C w|. So l2^2 is twice or four times that of
   adding a unit. The change of counts that are clamped to [-X, X] has the sign of the change before
   and is not larger, so all of this holds for it.

The squared length of the sum of columns 0, k, ..., (M - 1) k over n steps, M = min(m, ceil(n/k)).
Buffer i holds S_i(j) = 1 + theta_i^k + ... + theta_i^(j k) right after contribution j = 0, 1, ...,
and theta_i^(r - 1) of that before step j k + r; each contribution adds 1 to its own step. With g(x,
n) = 1 + x + ... + x^(n-1), Q_i and P_ij the sums over the contributions but the last of S_i and of
S_i S_j, the square is
    M + 2 sum of w_i theta_i^(k-1) Q_i + sum of w_i w_j P_ij g(theta_i theta_j, k)
      + sum of w_i w_j S_i(M - 1) S_j(M - 1) g(theta_i theta_j, n - (M - 1) k - 1).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import NamedTuple

from dpfast.errors import ParameterError
from dpfast.privacy.exact import Ball, ball, rounded_up
from dpfast.privacy.parameters import shown
from dpfast.privacy.sensitivity import Sensitivity

FURTHEST = Fraction(2**120)  # l2 squared: more than any noise here hides
PRECISION = 384  # the first try: q k n, which cancels twice in P_ij, may be near 2^-90


class Coefficients(NamedTuple):
    """The integers that C is made of. decays: (m, s) for each buffer; weights: (a, b)."""

    decays: tuple[tuple[int, int], ...]
    weights: tuple[tuple[int, int], ...]

    @property
    def leaks(self) -> list[Fraction]:
        """1 - theta_i."""
        return [Fraction(m, 2**s) for m, s in self.decays]

    @property
    def shares(self) -> list[Fraction]:
        """w_i."""
        return [Fraction(a, 2**b) for a, b in self.weights]

    def reach(self, steps: int) -> list[Fraction]:
        """The most that buffers hold after so many steps of inputs up to 1."""
        return [min(Fraction(steps), 1 / leak) for leak in self.leaks]

    def total(self, steps: int) -> Fraction:
        """A bound of c_0 + c_1 + ... over so many steps."""
        return 1 + sum((w * most for w, most in zip(self.shares, self.reach(steps), strict=True)), Fraction(0))

    def checked(self) -> Coefficients:
        """Itself, if c >= 0 does not grow: 5 above. Raises: ParameterError."""
        alike = len(self.decays) == len(self.weights) > 0
        if not alike or not all(0 < q < 1 for q in self.leaks) or not all(w > 0 for w in self.shares):
            raise ParameterError("coefficients must have decays within (0, 1), and as many positive weights")
        if sum(self.shares) > 1:
            raise ParameterError("coefficients must not grow: their weights add up to more than 1")
        return self


class Moved(NamedTuple):
    """What one unit changes in a step, for the shift of all steps: 3 and 6 above."""

    l2_squared: Fraction
    cells: int  # how many in a step, before and after together


def moved(sensitivity: Sensitivity) -> Moved:
    """Raises: ParameterError (a norm alone; a substitution without contributions)."""
    sensitivity.refuse_private_keys()
    if sensitivity.l0 is None:
        raise ParameterError(
            "sensitivity must say in how many cells one unit is, for each of them is rounded: Sensitivity(l0, linf)"
        )
    if not 1 / FURTHEST <= sensitivity.l2_squared <= FURTHEST:
        raise ParameterError(f"sensitivity must have an l2 from 2**-60 to 2**60, got {shown(sensitivity.l2)}")
    if sensitivity.adjacency == "add-remove":
        return Moved(sensitivity.l2_squared, sensitivity.l0)
    one = sensitivity.add_remove
    if one is None:
        raise ParameterError(
            "sensitivity must say what one unit contributes, for what it contributes instead may stand in other steps: "
            "Sensitivity(l0, linf, adjacency='substitution')"
        )
    return Moved((4 if sensitivity.signed else 2) * one.l2_squared, 2 * one.l0)  # type: ignore[operator]  # it is known


def _series(x: Ball, n: int) -> Ball:
    """1 + x + ... + x^(n-1)."""
    found: Ball = (1 - x**n) / (1 - x)
    return found


def columns_squared(found: Coefficients, steps: int, columns: int, apart: int) -> Ball:
    """The square of the length of the sum of the first so many columns, so far apart."""
    many = min(columns, -(-steps // apart))
    rest = steps - (many - 1) * apart - 1
    thetas, shares = [ball(1 - q) for q in found.leaks], [ball(w) for w in found.shares]
    decays = [theta**apart for theta in thetas]
    last = [_series(a, many) for a in decays]
    square: Ball = ball(Fraction(many))
    for theta, w, a in zip(thetas, shares, decays, strict=True):
        square += 2 * w * theta ** (apart - 1) * (many - 1 - a * _series(a, many - 1)) / (1 - a)
    for i, j in product(range(len(thetas)), repeat=2):
        a, b, both = decays[i], decays[j], thetas[i] * thetas[j]
        n = many - 1
        held = (n - a * _series(a, n) - b * _series(b, n) + a * b * _series(a * b, n)) / ((1 - a) * (1 - b))
        square += shares[i] * shares[j] * (held * _series(both, apart) + last[i] * last[j] * _series(both, rest))
    return square


class Placed(NamedTuple):
    """Where a unit contributes: in at most so many of all steps, at least so far apart."""

    steps: int
    per_unit: int
    apart: int

    @property
    def most(self) -> int:
        """In how many steps it can contribute."""
        return min(self.per_unit, -(-self.steps // self.apart))


def shift(found: Coefficients, placed: Placed, change: Moved, bits: int, rounding: Fraction) -> Fraction:
    """D of 3 above, a double rounded up: how far one unit moves all encoded steps together.

    bits: f. rounding: r, the most that an encoded step is off.
    """

    def value() -> Ball:
        columns: Ball = (columns_squared(found, *placed) * ball(change.l2_squared)).sqrt() * 2**bits
        return columns + ball(_margin_squared(placed, change, rounding)).sqrt()

    return Fraction(rounded_up(value, precision=PRECISION))


def _margin_squared(placed: Placed, change: Moved, rounding: Fraction) -> Fraction:
    return (2 * rounding) ** 2 * placed.steps * placed.most * change.cells


def margin(placed: Placed, change: Moved, rounding: Fraction) -> Fraction:
    """What the rounding adds to the shift, a double rounded up."""
    return Fraction(rounded_up(lambda: ball(_margin_squared(placed, change, rounding)).sqrt()))


def least_sigma_squared(rho: Fraction, moved_by: Fraction) -> int:
    """The least integer sigma^2 for which such a shift is rho-zCDP."""
    return -(-(moved_by**2) // (2 * rho))


def must_hide(rho: Fraction, moved_by: Fraction, sigma_squared: int) -> None:
    """Raises: ParameterError (noise that does not promise this rho)."""
    if moved_by**2 > 2 * rho * sigma_squared:
        raise ParameterError(f"sigma_squared must hide what one unit moves for rho={shown(rho)}, got {sigma_squared}")

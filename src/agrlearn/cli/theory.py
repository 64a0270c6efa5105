"""agrlearn theory"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from agrlearn.cli.options import WholeNumber
from agrlearn.errors import look_up

if TYPE_CHECKING:
    from agrlearn.theory.binary import BinaryCode
    from agrlearn.theory.distributions import Array

theory = App(name="theory", help="The paper's information theory on finite alphabets, with numbers and plots.")

_NO_GAIN = 1e-12

_SOURCES = "binary-symmetric, four-letters, three-letters, or a CSV file of p(x, y): a row per letter of X, no header."
Source = Annotated[str, Parameter(help=_SOURCES)]
Noise = Annotated[float, Parameter(help="The noise of binary-symmetric: the probability that Y differs from X.")]
Normalize = Annotated[bool, Parameter(help="Divide the numbers in the file by their sum, as for counts.")]
UnitOption = Annotated[Literal["bits", "nats"], Parameter(help="bits or nats.")]
Picture = Annotated[Path, Parameter(help="Where to write the plot; the file extension chooses the format.")]


@theory.command
def curve(
    source: Source,
    /,
    *,
    beta: list[float] | None = None,
    points: WholeNumber = 21,
    noise: Noise = 0.1,
    normalize: Normalize = False,
    unit: UnitOption = "bits",
    picture: Picture = Path("theory-curve.png"),
) -> None:
    """Compute the information bottleneck curve of a source, each point with its certificate gap.

    Parameters
    ----------
    beta
        Solve for these β only; by default `points` solutions along the whole curve.
    points
        The number of solutions.
    """
    from agrlearn.theory import bottleneck_curve, mutual_information, onset_beta
    from agrlearn.theory.plots import draw_curve

    p_xy = _read_source(source, noise, normalize)
    solutions = bottleneck_curve(p_xy, beta, points=points, unit=unit)
    print(
        f"{source}: {p_xy.shape[0]} letters of X, {p_xy.shape[1]} of Y, "
        f"I(X;Y) = {mutual_information(p_xy, unit=unit):.6f} {unit}; "
        f"nothing is worth keeping below beta = {onset_beta(p_xy):.6f}"
    )
    print(f"{'beta':>10} {'I(X;T)':>10} {'I(Y;T)':>10} {'E d_IB':>10} {'clusters':>8} {'gap':>8}   ({unit})")
    for each in solutions:
        remark = "" if each.proved else "  searched, not proved"
        print(
            f"{each.beta:10.6f} {each.rate:10.6f} {each.relevance:10.6f} {each.distortion:10.6f} "
            f"{each.encoder.shape[1]:8} {each.gap:8.1e}{remark}"
        )
    draw_curve(solutions, picture, f"Information bottleneck curve, {source}")
    print(f"picture: {picture}")


@theory.command
def code(
    source: Source,
    /,
    *,
    rate: float = 1.0,
    n: WholeNumber = 4,
    noise: Noise = 0.1,
    normalize: Normalize = False,
    seed: WholeNumber = 0,
    unit: UnitOption = "bits",
    picture: Picture = Path("theory-code.png"),
) -> None:
    """Design IB-quantization codes of growing length for a source, and compare them with time-sharing and the limit.

    Parameters
    ----------
    rate
        The rate per letter of X, in `unit`.
    n
        The codes have lengths 1, 2, ..., n.
    seed
        The seed of the search where it is not exact (more than 16 words).
    """
    from agrlearn.theory import bottleneck_curve, mutual_information, operational_curve, scalar_codes
    from agrlearn.theory.design import EXACT_WORDS
    from agrlearn.theory.plots import draw_codes

    p_xy = _read_source(source, noise, normalize)
    found = operational_curve(p_xy, rate, n, seed=seed, unit=unit)
    information = mutual_information(p_xy, unit=unit)
    print(f"{source}: distortion of codes of rate {rate:g}, in {unit} per letter; I(X;Y) = {information:.6f} {unit}")
    for each, distortion in zip(found.codes, found.distortions, strict=True):
        how = "exact" if len(each.encoder) <= EXACT_WORDS else "found by exchange"
        print(f"  n = {each.length}: {distortion:.6f}   {each.indices} indices for {len(each.encoder)} words, {how}")
    print(f"  time-sharing of scalar codes: {found.time_sharing:.6f}")
    print(f"  limit R_IBQ: {found.limit:.6f}")
    scalar = [(each.rate(unit=unit), each.distortion(unit=unit)) for each in scalar_codes(p_xy)]
    draw_codes(bottleneck_curve(p_xy, unit=unit), scalar, found, picture, f"Codes of rate {rate:g}, {source}")
    print(f"picture: {picture}")


@theory.command
def demo(*, noise: Noise = 0.1, picture: Picture = Path("theory-demo.png")) -> None:
    """Compare codes for the binary symmetric source: perfect, convolutional and random ones, in bits."""
    from agrlearn.theory import convolutional_code, perfect_code, random_codebook, typicality_failure
    from agrlearn.theory.binary import inverse_binary_entropy
    from agrlearn.theory.plots import draw_binary

    codes = [perfect_code(name, noise) for name in ("hamming-7", "hamming-15", "golay-23", "hamming-31")]
    codes += [convolutional_code(noise, generators=each) for each in ((0o5, 0o7), (0o133, 0o171), (0o561, 0o753))]
    print(f"binary symmetric source, noise {noise:g}; distortion in bits")
    print(
        f"{'code':>18} {'n':>5} {'rate':>7} {'distortion':>10} {'time-sharing':>12} {'limit':>8} {'share of gain':>13}"
    )
    for each in codes:
        sharing, limit, share = _compare(each, noise)
        print(
            f"{each.name:>18} {each.length:5} {each.rate:7.4f} {each.distortion:10.6f} {sharing:12.6f} {limit:8.6f} "
            f"{'–' if math.isnan(share) else format(share, '.1%'):>13}"
        )
    lengths = sorted({round(10 ** (exponent / 8)) for exponent in range(3, 29)})
    random = [(n, _compare(random_codebook(n, 0.5, noise), noise)[2]) for n in lengths]
    flip = inverse_binary_entropy(0.5)
    failures = {
        f"ε = {epsilon:g}": [(n, typicality_failure(n, 0.55, flip, epsilon)) for n in lengths]
        for epsilon in (0.05, 0.1, 0.3)
    }
    for name, points in failures.items():
        chances = ", ".join(f"{chance:.3f} at n = {n}" for n, chance in points if n in (10, 100, 1000))
        print(f"joint typicality at 0.05 bits above the rate ½, {name}: no codeword with probability {chances}")
    draw_binary([(each, _compare(each, noise)[2]) for each in codes], random, failures, picture, noise)
    print(f"picture: {picture}")


def _compare(code: "BinaryCode", noise: float) -> tuple[float, float, float]:
    """Time-sharing and the limit at the rate of a code, and its share of the gain between them; NaN without a gain."""
    from agrlearn.theory import binary_limit, flip_distortion

    sharing = (1 - code.rate) * flip_distortion(0.5, noise)
    limit = binary_limit(code.rate, noise)
    gain = sharing - limit  # at noise 0 and ½ this is only rounding
    return sharing, limit, (sharing - code.distortion) / gain if gain > _NO_GAIN else math.nan


def _read_source(source: str, noise: float, normalize: bool) -> "Array":
    """A named source, or the table in a file."""
    from agrlearn.theory import SOURCES, binary_symmetric, read_table

    if source == "binary-symmetric":
        return binary_symmetric(noise)
    if source not in SOURCES and (Path(source).suffix or Path(source).exists()):
        return read_table(Path(source), normalize=normalize)
    return look_up(SOURCES, source, "source")()

"""From numbers to verdicts, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sfumato.claims.ledger import Claim, Comparison
from sfumato.claims.verdict import Evidence, Found, Interval, Verdict, compare, decide, interval_of, raw_beside


def found(measure: str = "residual", judged_on: str = "the same", **trials: Evidence) -> Found:
    return {(name, measure, judged_on): evidence for name, evidence in trials.items()}


def three(middle: float, spread: float = 0.0, clips: float = 0.01) -> Evidence:
    return Evidence((middle - spread, middle, middle + spread), clips)


def claim(*comparisons: Comparison) -> Claim:
    return Claim("X1", "A paper", "something", comparisons)


def test_clips_alone_where_seeds_agree() -> None:
    only = interval_of(Evidence((0.5, 0.5), 0.04))
    assert (only.value, only.low, only.high, only.seeds) == pytest.approx((0.5, 0.46, 0.54, 2))
    both = interval_of(Evidence((0.9, 0.9), 0.03), Evidence((0.5, 0.5), 0.04))
    assert (both.value, both.low, both.high) == pytest.approx((0.4, 0.35, 0.45))


def test_an_interval_reaches_as_far_to_either_side_as_its_trials_do() -> None:
    """More seeds that agree must not pull in the end that matters, as the mean of both sides would."""
    hidden = Evidence((0.13, 0.13), 0.03, 0.4)
    alone = interval_of(hidden)
    assert (alone.low, alone.high) == pytest.approx((0.10, 0.53))
    less = interval_of(hidden, Evidence((0.5, 0.5), 0.3, 0.04))
    assert (less.low, less.high) == pytest.approx((-0.37 - 0.05, -0.37 + 0.5))


def test_fewer_than_three_seeds_decide_nothing() -> None:
    asked = claim(Comparison("residual", "a", at_most=0.9))
    for seeds, verdict in ((1, "undecided"), (2, "undecided"), (3, "holds")):
        assert decide(asked, found(a=Evidence((0.8,) * seeds, 0.03))).verdict == verdict
    against = interval_of(Evidence((0.9, 0.9, 0.9), 0.03), Evidence((0.2,), 0.04))
    assert against.seeds == 1  # what is not trained has judges, whose training has a seed


def test_of_many_comparisons_one_refutes_by_a_wider_interval() -> None:
    # .1 above the margin with an interval of ±.09 over clips: refuted where it is asked alone. Of five each has to be wrong by
    # more than 2.576/1.960 times that, ±.118.
    alone = claim(Comparison("residual", "a", at_most=0.5))
    there = found(a=Evidence((0.6, 0.6, 0.6), 0.09), b=Evidence((0.1, 0.1, 0.1), 0.01))
    assert decide(alone, there).verdict == "refuted"
    several = claim(*[Comparison("residual", "b", at_most=0.5)] * 4, Comparison("residual", "a", at_most=0.5))
    judged = decide(several, there)
    assert judged.verdict == "undecided" and judged.answers[-1].interval.low == pytest.approx(
        0.51
    )  # what is shown is 95%
    sure = found(a=Evidence((0.7, 0.7, 0.7), 0.09), b=Evidence((0.1, 0.1, 0.1), 0.01))
    assert decide(several, sure).verdict == "refuted"


def test_seeds_are_weighed_by_student() -> None:
    # Values .4, .5, .6: variance .01, of the mean .01/3; two degrees of freedom, t = 4.303.
    alone = interval_of(three(0.5, 0.1, clips=0.0))
    assert alone.high - alone.value == pytest.approx(4.302653 * math.sqrt(0.01 / 3))
    # Two such trials: by Welch and Satterthwaite four degrees of freedom, t = 2.776.
    pair = interval_of(three(0.5, 0.1, clips=0.0), three(0.2, 0.1, clips=0.0))
    assert pair.value == pytest.approx(0.3)
    assert pair.high - pair.value == pytest.approx(2.776445 * math.sqrt(0.02 / 3))
    # Clips and seeds add as squares.
    mixed = interval_of(three(0.5, 0.1, clips=0.3))
    assert mixed.high - mixed.value == pytest.approx(math.hypot(4.302653 * math.sqrt(0.01 / 3), 0.3))


@pytest.mark.parametrize(
    ("middle", "verdict"), [(0.5, "holds"), (0.405, "undecided"), (0.395, "undecided"), (0.3, "refuted")]
)
def test_at_least(middle: float, verdict: Verdict) -> None:
    asked = Comparison("residual", "a", at_least=0.4)
    assert [a.verdict for a in compare(asked, found(a=three(middle)))] == [verdict]
    mirrored = Comparison("residual", "a", at_most=-0.4)
    assert [a.verdict for a in compare(mirrored, found(a=three(-middle)))] == [verdict]


@pytest.mark.parametrize(
    ("second", "verdict"), [(0.5, "holds"), (0.55, "undecided"), (0.6, "refuted"), (0.4, "refuted")]
)
def test_within(second: float, verdict: Verdict) -> None:
    asked = Comparison("residual", "a", against="b", within=0.05)
    assert [a.verdict for a in compare(asked, found(a=three(0.5), b=three(second)))] == [verdict]


def test_against_raw() -> None:
    asked = Comparison("action", "a", against="raw", at_least=-0.02)
    raw = {raw_beside("a"): three(0.81, clips=0.005), raw_beside("b"): three(0.5)}
    (answer,) = compare(asked, found("action", a=three(0.8, clips=0.005), **raw))
    assert answer.verdict == "holds" and answer.interval.value == pytest.approx(-0.01)


def test_one_seed_decides_nothing() -> None:
    asked = Comparison("residual", "a", at_least=0.4)
    assert decide(claim(asked), found(a=Evidence((0.9,), 0.01))).verdict == "undecided"
    steps = Comparison("residual", rising=("a", "b", "c"))
    there = found(a=Evidence((0.1,), 0.01), b=Evidence((0.5,), 0.01), c=Evidence((0.9,), 0.01))
    assert {answer.verdict for answer in compare(steps, there)} == {"undecided"}


def test_rising_allows_a_level_step_but_no_fall() -> None:
    asked = claim(Comparison("residual", rising=("a", "b", "c")))
    level = found(a=three(0.3), b=three(0.295), c=three(0.5))
    assert decide(asked, level).verdict == "holds"
    falls = found(a=three(0.3), b=three(0.2), c=three(0.5))
    assert decide(asked, falls).verdict == "refuted"
    # Surely lower, but by less than what is "almost constant": that may be, and is not shown to be.
    lower = found(a=three(0.3, clips=0.01), b=three(0.26, clips=0.01), c=three(0.5))
    assert [a.verdict for a in decide(asked, lower).answers] == ["holds", "undecided", "holds"]
    flat = found(a=three(0.3), b=three(0.3), c=three(0.3))
    assert decide(asked, flat).verdict == "undecided"


def test_a_step_that_nobody_can_tell_does_not_hold() -> None:
    """Not to be refuted by three seeds that differ is no proof that nothing falls."""
    asked = claim(Comparison("residual", rising=("a", "b", "c")))
    shaky = found(a=Evidence((0.6, 0.6, 0.6), 0.01), b=Evidence((0.2, 0.45, 0.55), 0.01), c=three(0.9))
    judged = decide(asked, shaky)
    assert [answer.verdict for answer in judged.answers] == ["holds", "undecided", "holds"]
    assert judged.answers[1].interval.value == pytest.approx(-0.2) and judged.verdict == "undecided"


def test_what_an_f_b_does_is_not_decided_where_it_read_nothing() -> None:
    """The numbers stay, and so does the verdict of a claim that is not about f_B."""
    asked = Comparison("residual", "frozen", against="updated", at_least=0.1)
    there = found(frozen=three(0.5), updated=replace(three(0.5), idle=2))
    about = decide(replace(claim(asked), opponent=True), there)
    assert (about.verdict, about.idle, about.answers[0].verdict) == ("undecided", ("updated",), "refuted")
    assert decide(claim(asked), there).verdict == "refuted"
    mostly = found(frozen=three(0.5), updated=replace(three(0.5), idle=1))  # two of three trainings had an opponent
    assert decide(replace(claim(asked), opponent=True), mostly).verdict == "refuted"


def test_all_comparisons_must_hold_and_one_can_refute() -> None:
    yes, no, perhaps = (Comparison("residual", name, at_least=0.4) for name in ("yes", "no", "perhaps"))
    there = found(yes=three(0.6), no=three(0.2), perhaps=three(0.4))
    assert decide(claim(yes), there).verdict == "holds"
    assert decide(claim(yes, perhaps), there).verdict == "undecided"
    assert decide(claim(yes, perhaps, no), there).verdict == "refuted"


def test_what_is_missing_is_named() -> None:
    asked = claim(Comparison("residual", "a", against="b", within=0.1))
    judged = decide(asked, found(a=three(0.5)))
    assert (judged.verdict, judged.missing, judged.answers) == ("undecided", ("b",), ())
    elsewhere = claim(Comparison("residual", "a", at_least=0.1, judged_on="theatre:small-novel"))
    assert decide(elsewhere, found(a=three(0.5))).missing == ("a",)


def test_what_was_run_and_not_measured_is_inconclusive() -> None:
    asked = claim(Comparison("residual", "a", against="b", within=0.1), Comparison("action", "a", at_least=0.5))
    judged = decide(asked, found("action", a=three(0.9)))
    assert (judged.verdict, judged.missing, judged.inconclusive) == ("undecided", ("b",), ("residual of a",))
    assert [answer.verdict for answer in judged.answers] == ["holds"]  # what was measured is told
    assert decide(asked, found("action", a=three(0.1))).verdict == "refuted"  # whatever the others may come to
    elsewhere = found("action", "theatre:small-novel", a=three(0.9))
    assert decide(asked, elsewhere).missing == ("a", "b")  # judged on something else it was not run here


@pytest.mark.parametrize("measure", ["residual", "frame-level residual", "identity", "attributes", "attacker lead"])
def test_leakage_to_fewer_attackers_than_there_are_decides_nothing(measure: str) -> None:
    before = replace(three(0.5), unmet=frozenset({"decode-frame"}))
    there = found(measure, a=before, b=three(0.2), c=three(0.9))
    for asked in (
        Comparison(measure, "a", at_most=0.9),  # would hold
        Comparison(measure, "a", at_least=0.9),  # would be refuted
        Comparison(measure, "b", against="a", at_most=0.0),
        Comparison(measure, rising=("b", "a", "c")),
    ):
        judged = decide(claim(asked), there)
        assert (judged.verdict, judged.unmet) == ("undecided", ("decode-frame",))
        assert {answer.verdict for answer in judged.answers} == {"undecided"}
    met = decide(claim(Comparison(measure, "b", against="c", at_most=0.0)), there)
    assert (met.verdict, met.unmet) == ("holds", ())


def test_what_attackers_do_not_change_decides_without_them() -> None:
    before = replace(three(0.5), unmet=frozenset({"decode-frame"}))
    for measure in ("action", "PSNR", "trained parameters", "reader change", "dropped content", "static residual"):
        judged = decide(claim(Comparison(measure, "a", at_most=0.2)), found(measure, a=before))
        assert (judged.verdict, judged.unmet) == ("refuted", ())
    # One that decides refutes a claim of which another may not.
    both = claim(Comparison("action", "a", at_most=0.2), Comparison("residual", "a", at_most=0.9))
    judged = decide(both, found("action", a=before) | found(a=before))
    assert (judged.verdict, judged.unmet) == ("refuted", ("decode-frame",))
    assert [answer.verdict for answer in judged.answers] == ["refuted", "undecided"]


def test_who_has_met_more_attackers_may_be_found_better_but_not_worse() -> None:
    asked = Comparison("residual", "a", against="b", at_most=0.0, one_sided=True)
    for middle, one_sided, else_ in (
        (0.2, "holds", "holds"), (0.5, "undecided", "undecided"), (0.9, "undecided", "refuted"),
    ):  # fmt: skip
        there = found(a=three(middle), b=three(0.5))
        assert decide(claim(asked), there).verdict == one_sided
        assert decide(claim(replace(asked, one_sided=False)), there).verdict == else_


def test_an_interval_says_how_few_seeds_it_has() -> None:
    assert interval_of(three(0.5), Evidence((0.5,), 0.01)) == Interval(
        0.0, pytest.approx(-0.0141, abs=1e-4), pytest.approx(0.0141, abs=1e-4), 1
    )


def test_what_is_counted_is_the_same_for_every_seed() -> None:
    asked = claim(Comparison("trained parameters", "a", against="b", at_most=0.0))
    fewer = found("trained parameters", a=Evidence((10.0,), 0.0), b=Evidence((20.0,), 0.0))
    assert decide(asked, fewer).verdict == "holds"
    more = found("trained parameters", a=Evidence((30.0,), 0.0), b=Evidence((20.0,), 0.0))
    assert decide(asked, more).verdict == "refuted"
    measured = claim(Comparison("residual", "a", against="b", at_most=0.0))
    assert decide(measured, found(a=Evidence((0.1,), 0.0), b=Evidence((0.2,), 0.0))).verdict == "undecided"

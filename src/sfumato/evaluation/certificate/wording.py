"""The sentences of a certificate that depend on what was found and on what could not be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.datasets.footage import LONGEST
from sfumato.evaluation.certificate.document import Finding
from sfumato.evaluation.certificate.verdict import ENOUGH, ENOUGH_PEOPLE, Exposure, few, listing
from sfumato.evaluation.draws import PERSONS

ABOUT_PEOPLE = ("identity", "re-identification")
# What it is that was not asked, by target.
_UNASKED = {
    "action": "Whether actions stay recognisable",
    "attributes": "Private attributes, such as gender or age",
    "identity": "Who a person is",
    "re-identification": "Whether somebody the attacker has never seen is recognised again",
}
_NEVER = (
    "Attackers with larger networks, more training or more footage than these.",
    "Comparison with photographs, social networks or face databases from elsewhere.",
    "Sound, file metadata, and text or number plates in the picture.",
    "Other cameras, places and people than those of this footage.",
)
_UNLESS_THOROUGH = (
    "Attackers who first undo the anonymizer, learn from raw video of the same people, or gather hints over a recording: "
    "--effort thorough tries these."
)
UNNAMED = f" Who is in each recording is not known: of fewer than {ENOUGH_PEOPLE} people it tells nothing about others."


def headline(level: Exposure, about: Sequence[Finding]) -> str:
    """The verdict in one line; `about`: the findings that are as bad as that.

    >>> headline(Exposure.full, [finding])
    'Identity is fully exposed'
    """
    if level is Exposure.not_shown:
        return "No leak was shown, with this attack and this much footage"
    if level is Exposure.too_little:
        return "Too little footage for a conclusion"
    if level is Exposure.few_people:
        return "Too few people to tell"
    if level is Exposure.weak:
        return "No conclusion: the attackers could not read raw video well enough"
    names = list(dict.fromkeys("identity" if f.target in ABOUT_PEOPLE else f.title for f in about))
    listed = listing(names)
    return f"{listed[0].upper()}{listed[1:]} {'are' if len(names) > 1 else 'is'} {level.value}"


def doubts(level: Exposure, findings: Sequence[Finding], used: int, there: int) -> list[str]:
    """What limits the verdict, question by question: too little footage or too few people and how much would do, attackers
    that are too weak.

    used: so many of the recordings that are `there`.

    >>> doubts(Exposure.too_little, [finding], used=12, there=12)
    ['12 recordings are too few for a conclusion about who a person is: give at least 20. A leak of up to 40% of …']
    """
    found = []
    for f in findings:
        if f.exposure == Exposure.too_little.value:
            escaped = min(1.0, max(f.detectable, f.leakage.high))
            # More recordings of the same people leave it open how it is with others.
            more = ", of more people too" if f.leakage.high in f.leakage.intervals.get(PERSONS, ()) else ""
            more = f", of {f.persons_needed} people or more" if few(f.persons) else more
            of = f" of {people(f.persons)}" if f.persons else ""
            found.append(
                f"{f.recordings} recordings{of} are too few for a conclusion about {f.title}: "
                f"{_more(f.needed, there)}{more}. "
                f"A leak of up to {escaped:.0%} of what raw video gives away could have gone unnoticed."
            )
        elif f.exposure == Exposure.few_people.value:
            found.append(
                f"About {f.title}: tested on {people(f.persons)} only, too few to tell how it is with others. "
                f"Give recordings of at least {f.persons_needed} people in all."
            )
        elif f.exposure == Exposure.weak.value:
            found.append(
                f"About {f.title} nothing can be said: even on raw video the attacker scores {f.score.raw:.0%}, "
                f"where guessing scores {f.score.chance:.0%}."
            )
        elif f.exposure == Exposure.not_shown.value:
            escaped = max(f.detectable, f.leakage.high)
            named = PERSONS in f.leakage.intervals
            found.append(
                f"About {f.title}: a leak of up to {escaped:.0%} of what raw video gives away could have gone unnoticed."
                f"{'' if named else UNNAMED}"
            )
    found = [*_shown_on_few(findings), *found]
    if level.leaks and used < ENOUGH:
        found.insert(
            0,
            f"{used} recordings are enough to show this leak, and too few to rule others out: {_more(ENOUGH, there)}.",
        )
    return found


def _shown_on_few(findings: Sequence[Finding]) -> list[str]:
    """On how many people the leaks rest that few people showed; a line for each number of them."""
    leaks = [f for f in findings if Exposure(f.exposure).leaks and few(f.persons)]
    lines = []
    for count in sorted({f.persons for f in leaks}):
        on = [f for f in leaks if f.persons == count]
        lines.append(
            f"{people(count)} {'is' if count == 1 else 'are'} enough to show this leak ({listing([f.title for f in on])}), "
            f"and too few to tell how it is with others: give recordings of at least {max(f.persons_needed for f in on)} "
            "people in all."
        )
    return lines


def people(count: int) -> str:
    """So many of them, in words.

    >>> people(1), people(2)
    ('1 person', '2 people')
    """
    return "1 person" if count == 1 else f"{count} people"


def _more(needed: int, there: int) -> str:
    """How to come to that many recordings in all, of which so many are there."""
    return (
        f"use {needed} of the {there} that are there, --recordings {needed}"
        if needed <= there
        else f"give at least {needed} in all"
    )


def not_tested(
    missing: Mapping[str, str], rare: Sequence[str], *, linked: bool, used: int, found: int, problems: Sequence[str],
    size: int, thorough: bool, unasked: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """What a reader must not take for tested. missing: target → why it was not asked about; unasked: usual attackers that
    the effort left out.

    >>> not_tested({"action": "no labels"}, [], linked=False, used=9, found=9, problems=[], size=112, thorough=True)[0]
    'Whether actions stay recognisable: no labels.'
    """
    lines = [f"{_UNASKED[target]}: {why}." for target, why in missing.items() if target != "attributes" or not rare]
    if rare:
        lines.append(f"{listing([name.replace('_', ' ') for name in rare])}: too rare in the labels.")
    if linked:
        lines.append(
            "Whether a person is recognised on another day, in other clothes or elsewhere: nobody is named in the labels. "
            "What links clips of one recording may be clothes, place or light as much as the person."
        )
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        lines.append(f"What could not be used: {problems[0]}{more}.")
    if used < found:
        lines.append(f"{found - used} of {found} recordings: {used} were used.")
    lines.append(
        f"Pictures larger than {size}×{size} pixels, to which frames were reduced before they were processed, and what "
        f"comes after the first {LONGEST / 60:.0f} minutes of a recording."
    )
    if unasked:
        lines.append(
            f"Attackers who usually attack, to whom more may leak: {', '.join(unasked)}; --effort standard asks them."
        )
    if not thorough:
        lines.append(_UNLESS_THOROUGH)
    return [*(line[0].upper() + line[1:] for line in lines), *_NEVER]

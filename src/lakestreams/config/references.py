"""The names that steps and outputs use of each other: whether they exist, and in which order the steps are declared."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from lakestreams.config.load import Document, KeyPath
from lakestreams.config.models import OutputSpec
from lakestreams.config.steps import StepSpec
from lakestreams.errors import ConfigInvalid, DuplicateName, UnknownReference


def without_sources_names(
    steps: Mapping[str, StepSpec], topics: Collection[str], document: Document
) -> dict[str, StepSpec]:
    """The steps without those that have a source's name, which are faults: a reference means the source."""
    for name in steps:
        if name in topics:
            where = document.where(("steps", name))
            document.faults.append(DuplicateName(f"a source has the name {name!r}, too", where=where))
    return {name: spec for name, spec in steps.items() if name not in topics}


def check_references(
    steps: Mapping[str, StepSpec],
    outputs: Mapping[str, OutputSpec],
    topics: Collection[str],
    left_out: Collection[str],
    document: Document,
) -> None:
    """Notes each name that is none.

    Args:
        steps, outputs: what refers to sources and steps.
        topics: the sources.
        left_out: names of sources and steps that have faults of their own.
    """
    used: list[tuple[str, KeyPath]] = [
        (name, ("steps", step, *key.split("."))) for step, spec in steps.items() for key, name in spec.inputs
    ]
    used += [(target.from_, ("outputs", output, "from")) for output, target in outputs.items()]
    for name, path in used:
        if name in topics or name in steps or name in left_out:
            continue
        known = [*topics, *(step for step in steps if step != path[1])]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"{f'did you mean {near[0]!r}? ' if near else ''}there are: {', '.join(known)}"
        hint = hint if known else f"declare {name} under topics in the sources' file"
        message = f"{'.'.join(map(str, path[2:]))} refers to {name!r}, which is neither a source nor a step"
        document.faults.append(UnknownReference(message, hint=hint, where=document.where(path)))


def ordered(steps: Mapping[str, StepSpec], document: Document) -> list[str]:
    """The steps, inputs first, otherwise as they are declared; those of a circle are left out, and a fault."""
    needs = {name: {ref for _, ref in spec.inputs if ref in steps} for name, spec in steps.items()}
    order: list[str] = []
    while len(order) < len(steps):
        ready = next((name for name in steps if name not in order and needs[name] <= set(order)), None)
        if ready is None:
            break
        order.append(ready)
    circle = _circle({name: needs[name] for name in steps if name not in order})
    if circle:
        message = f"the steps feed each other in a circle: {' -> '.join(circle)}"
        where = document.where(("steps", circle[0]))
        document.faults.append(ConfigInvalid(message, hint="let one of them read from a source", where=where))
    return order


def used_sources(
    order: list[str], steps: Mapping[str, StepSpec], outputs: Mapping[str, OutputSpec], topics: Collection[str]
) -> list[str]:
    """The sources that steps and outputs use, in the order of their first use."""
    names = [name for step in order for _, name in steps[step].inputs]
    names += [output.from_ for output in outputs.values()]
    return [name for name in dict.fromkeys(names) if name in topics and name not in steps]


def _circle(needs: Mapping[str, set[str]]) -> list[str]:
    """One circle among steps that wait for each other, its first name once more at the end."""
    waiting = {name: [ref for ref in refs if ref in needs] for name, refs in needs.items()}
    if not waiting:
        return []
    walk = [next(iter(waiting))]
    while True:
        step = min(waiting[walk[-1]])
        if step in walk:
            return [*walk[walk.index(step) :], step]
        walk.append(step)

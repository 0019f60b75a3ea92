"""A changed pipeline over existing results is refused before anything is written, unless the operator goes on with it.

What results follow from is recorded with each configuration (`topology.results`). Of the last finished cycle's and of this
run's the differences are found node by node. A change that leaves every row as it is passes (decision 0032).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakestreams.errors import TopologyChanged
from lakestreams.topology.results import KEYS_NOT_NULL, NODE, RULE, Results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History, Plan

_FUNCTION: Final = re.compile(r"Python (\d+\.\d+) function \w+")
_UNSET: Final = "not set"


@dataclass(frozen=True)
class Change:
    """What has changed since the last finished cycle.

    Attributes:
        former: the fingerprint that this cycle ran under.
        differences: in words, one a change.
    """

    former: str
    differences: tuple[str, ...]


def since(spark: SparkSession, ledger: Ledger, history: History, configured: Configuration) -> Change | None:
    """What has changed over existing results; None if nothing, or if it was accepted before.

    Args:
        history: what it says.
        configured: of this run.
    """
    if history.plan is None or history.done_cycle == 0 or history.plan.fingerprint == configured.whole:
        return None  # without a finished cycle nothing but the open one can have rows, which taking it over looks at
    is_open = history.open_plan is not None
    last = ledger.executed_under(spark, history.done_cycle) if is_open else history.plan.fingerprint
    accepted = history.accepted
    ran_under = [last]
    if accepted is not None and accepted.cycle >= history.done_cycle:
        ran_under.append(accepted.fingerprint)
    if configured.whole in ran_under:
        return None
    by_fingerprint = {one: _differences(spark, ledger, history, one, configured) for one in ran_under}
    return Change(last, by_fingerprint[last]) if all(by_fingerprint.values()) else None


def require_accepted(change: Change | None, pipeline: str, cycle: int, *, accept: bool) -> None:
    """Refuses a change that nobody has accepted.

    Raises:
        TopologyChanged: saying what has changed.
    """
    if change is not None and not accept:
        lines = "\n".join(f"  {one}" for one in change.differences)
        message = f"{pipeline} has results of {cycle} cycles, and has changed since:\n{lines}"
        raise TopologyChanged(message, where=f"pipeline {pipeline!r}")


def repeats(spark: SparkSession, ledger: Ledger, history: History, plan: Plan, configured: Configuration) -> bool:
    """Whether an open plan gives the same rows under this configuration as under its own."""
    if history.semantics_of.get(plan.fingerprint) != configured.semantics:
        return False
    recorded = ledger.results(spark, plan.fingerprint)  # functions are not in the meaning
    return not (recorded and configured.results) or _plain(recorded) == _plain(configured.results)


def _plain(recorded: str) -> list[tuple[str, str, str]]:
    """What is recorded, but for rules: those that decide on rows are in the meaning."""
    nodes: Results = json.loads(recorded)
    options = [(name, option, text) for name, own in nodes.items() for option, text in own.items()]
    return sorted(one for one in options if not one[1].startswith(RULE) and one[1] != KEYS_NOT_NULL)


def _differences(
    spark: SparkSession, ledger: Ledger, history: History, former: str, configured: Configuration
) -> tuple[str, ...]:
    """What differs from a former configuration, in words."""
    recorded = ledger.results(spark, former)
    if recorded and configured.results:
        return tuple(differences(json.loads(recorded), json.loads(configured.results)))
    if history.semantics_of.get(former) == configured.semantics:
        return ()
    # an older version has not recorded what its results follow from
    return (f"the topology or its configuration; the record of configuration {former} has no details",)


def differences(former: Results, now: Results) -> list[str]:
    """What differs so that rows may, a line a node.

    Args:
        former: what the results so far follow from.
        now: what those to come do.
    """
    lines = [f"{name}: removed ({own[NODE]})" for name, own in former.items() if name not in now]
    lines += [f"{name}: added ({own[NODE]})" for name, own in now.items() if name not in former]
    for name in (name for name in now if name in former):
        options = [*former[name], *(option for option in now[name] if option not in former[name])]
        pairs = [(option, former[name].get(option), now[name].get(option)) for option in options]
        texts = [_in_words(*pair) for pair in pairs if not _equal(*pair)]
        if texts:
            lines.append(f"{name}: {', '.join(texts)}")
    return lines


def _equal(option: str, former: str | None, now: str | None) -> bool:
    """Whether no row differs by an option."""
    if option.startswith(RULE):
        return _same_rule(former, now)
    if option == KEYS_NOT_NULL:  # what would have failed has published nothing
        return (former == "drop") == (now == "drop") or former == "fail"
    if option == "ignore_changes":  # as long as it was off, a change ended the run
        return former == now or former is None
    return _comparable(former, now) == _comparable(now, former)


def _same_rule(former: str | None, now: str | None) -> bool:
    """Only rules that drop decide on rows; none that failed was ever violated by a published one."""
    was, _, condition = (former or "off: ").partition(": ")
    is_now, _, condition_now = (now or "off: ").partition(": ")
    same = _comparable(condition, condition_now) == _comparable(condition_now, condition)
    if was == "fail" and same:
        return True
    return (was == "drop") == (is_now == "drop") and (same or was != "drop")


def _comparable(text: str | None, other: str | None) -> str | None:
    """A text without the digests of functions where the other one is of another version of Python."""
    if text is None or other is None or set(_FUNCTION.findall(text)) == set(_FUNCTION.findall(other)):
        return text
    return _FUNCTION.sub("function", text)


def _in_words(option: str, former: str | None, now: str | None) -> str:
    """An option's change: values where they say something, else that it is another one."""
    if option.startswith(RULE):
        was, is_now = ((one or "off: ").partition(": ")[0] for one in (former, now))
        return f'rule "{option.removeprefix(RULE)}" ' + (
            f"{was} -> {is_now}" if was != is_now else "has another condition"
        )
    if (
        former is not None
        and now is not None
        and any("expression " in one or _FUNCTION.search(one) for one in (former, now))
    ):
        return f"{option} is computed differently"
    return f"{'' if option == NODE else option + ' '}{_shown(former)} -> {_shown(now)}"


def _shown(text: str | None) -> str:
    if text is None:
        return _UNSET
    return "computed" if "expression " in text or _FUNCTION.search(text) else text

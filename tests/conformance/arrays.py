"""The executor on the windowed kernel in this process: stream-stream cases, whole or cut; no Spark is started."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tests.conformance.cases import Case, Row, Rules
from tests.conformance.executors import Executor, Outcome
from tests.conformance.functions import joiner
from tests.conformance.reference import arrivals
from tests.operators import in_arrays
from tests.operators.in_arrays import Arrival, Found, History

from lakestreams.operators.stream_stream.rows import Window

ELSEWHERE = "no stream-stream join"


class Arrays:
    """Runs cases of equal options together, each in so many steps.

    Args:
        steps: into how many pieces each case is cut, at random places.
        seed: of the cuts.
    """

    def __init__(self, steps: int, seed: int) -> None:
        self._steps, self._seed = steps, seed

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        kinds: dict[Window, list[Case]] = defaultdict(list)
        for case in cases:
            if case.join == "stream-stream":
                kinds[_options(case, rules)].append(case)
            else:
                outcomes[case.id] = Outcome(left_out=ELSEWHERE)
        for options, of_kind in kinds.items():
            found = in_arrays.through([self._history(case) for case in of_kind], options)
            for case, one in zip(of_kind, found, strict=True):
                late = tuple(dict.fromkeys(record.offset for record in one.late))
                outcomes[case.id] = Outcome(tuple(_row(case, row) for row in one.rows), late)
        return outcomes

    def _history(self, case: Case) -> History:
        came = [Arrival(arm, record, record.ts) for record, arm in arrivals(case)]
        params, rng = case.params, random.Random(f"{self._seed}/{case.id}")
        # a self join's record goes to both sides in one cycle
        places = [n for n in range(len(came) + 1) if n in (0, len(came)) or came[n].record is not came[n - 1].record]
        cuts = sorted(rng.choice(places) for _ in range(self._steps - 1))
        return History(came, (params.before_ms, params.after_ms, params.grace_ms or 0), cuts)


def executor(seed: int) -> Executor:
    """Everything in one piece."""
    return Arrays(1, seed)


def _options(case: Case, rules: Rules) -> Window:
    outer = {"inner": (False, False), "left": (True, False), "outer": (True, True)}[case.how]
    in_memory = case.params.window_store == "in-memory"
    return Window(0, 0, outer=outer, kafka=rules == "kafka", eager=case.params.eager_legacy, in_memory=in_memory)


def _row(case: Case, found: Found) -> Row:
    sides = [one for one in (found.left, found.right) if one is not None]
    left, right = (None if one is None else one.value for one in (found.left, found.right))
    value = joiner(case.joiner)(sides[0].key, left, right)
    return Row(sides[0].key, value, max(one.ts for one in sides), found.trigger.offset)

"""What the tables of a state hold, and what is answered to whoever reads them."""

# ruff: noqa: ARG002 - all that answers a read is called alike

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.protocol.machines import Machines, Numbers
from tests.protocol.state import (
    ENDS,
    EPOCHS,
    LEDGER,
    LOOKED_AT,
    REPLAYS,
    SILVER,
    SLOTS,
    TABLES,
    A,
    Actor,
    B,
    Scenario,
    State,
    epoch_of,
    slot_of,
)

from lakestreams.engine.ledger.plans import (
    REPLAYED,
    AppendedRange,
    Claim,
    History,
    Ingest,
    KnownTable,
    Plan,
    Range,
    StoredState,
)
from lakestreams.engine.protocol import commands, decisions, machines, maintenance, unchanged


class Reads:
    """The machines of a scenario, the numbers of all values, and the answers to reads."""

    def __init__(self, scenario: Scenario) -> None:
        one, two = scenario.drivers
        self.scenario = scenario
        self.machines = Machines(
            {
                "one": lambda: machines.drive(one, scenario.rounds),
                **({} if scenario.symmetric else {"two": lambda: machines.drive(two, scenario.rounds)}),
                "trim": lambda: maintenance.trim(one),
                "ask": maintenance.request,
            }
        )
        self.rows, self.tables, self.actors, self.late = Numbers(), Numbers(), Numbers(), Numbers()
        self._idle = self.actors.of(Actor())
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._looks = any(table in TABLES for _, table in scenario.damages)
        self._yes, self._no, self._none_told = (self.machines.answers.of(one) for one in (True, False, None))

    def _results(self, plan: Plan, fingerprint: str) -> list[tuple[str, int, int]]:
        """What a cycle publishes: a row a record, `topic, offset, attempt`."""
        if fingerprint in self.scenario.empty:
            return []
        found = []
        for part in plan.ranges:
            if part.partition == REPLAYED:
                found += [(part.topic, 0, 1)] if part.to_offset > part.from_offset else []
            else:
                records = self.scenario.topics[part.topic]
                found += [
                    (part.topic, one, 0) for one in range(part.from_offset, part.to_offset) if records[one] == "r"
                ]
        return found

    def answer(self, state: State, who: int, at: int, command: commands.Read) -> int:
        """The number of what is there."""
        what, of = command.what, command.of
        key = (at, who, *[state[one] for one in LOOKED_AT.get(what, (LEDGER,))])
        answer = self._cache.get(key)
        if answer is None:
            reader: Callable[[State, int, Any], Any] = getattr(self, f"_read_{what}")
            answer = self._cache[key] = self.machines.answers.of(reader(state, who, of))
        return int(answer)

    def _ledger(self, state: State, *kinds: str) -> list[tuple[Any, ...]]:
        rows = (self.rows.values[row] for row in self.tables.values[state[LEDGER]][0])
        return [(*row[:4], self.machines.answers.values[row[4]]) for row in rows if row[0] in kinds]

    def _plans(self, state: State) -> dict[int, Plan]:
        return {row[1]: row[4] for row in self._ledger(state, "plan")}

    def _read_ledger(self, state: State, who: int, of: Any) -> History:
        def newest(kind: str) -> Any:
            found = self._ledger(state, kind)
            return max(found, key=lambda row: (row[3], row[1])) if found else None

        plan, ingest, done, tip = newest("plan"), newest("ingest"), newest("done"), newest("epoch")
        epoch, stored, base = tip, newest("state"), newest("base")
        trim, trimmed, maintain, ended = newest("trim"), newest("trimmed"), newest("maintain"), newest("ended")
        return History(
            epoch=epoch[1] if epoch else 0,
            ingest=ingest[4] if ingest else None,
            plan=self._executed(state, plan[4]) if plan else None,
            done_cycle=decisions.done_cycle(done[1] if done else 0, plan[1] if plan else 0),
            state=stored[4] if stored else None,
            base=base[4] if base else None,
            trim=Plan(trim[1], "", (), {}, 0, 0) if trim else None,
            trimmed=Plan(trimmed[1], "", (), {}, 0, 0) if trimmed else None,
            maintenance=maintain[1] if maintain else 0,
            tables=dict(epoch[4][0]) if epoch else {},
            claim=Claim("", tip[1], 0, 0, configuration=tip[4][1], has_ended=(ended or (0, 0))[1] == tip[1])
            if tip
            else None,
        )

    def _executed(self, state: State, plan: Plan) -> Plan:
        taken = [row for row in self._ledger(state, "taken") if row[1] == plan.cycle]
        if not taken:
            return plan
        last = max(taken, key=lambda row: row[3])
        return replace(plan, fingerprint=last[4], taken_over=last[3])

    def _read_claim(self, state: State, who: int, of: commands.Turn) -> int:
        last = max((row for row in self._ledger(state, of.role)), key=lambda row: row[3])
        return last[1] if last[2] == who else -last[1]

    def _read_mine(self, state: State, who: int, of: tuple[str, int]) -> bool:
        return [row[2] for row in self._ledger(state, of[0]) if row[1] == of[1]] == [who]

    def _read_ingests(self, state: State, who: int, of: int) -> tuple[Ingest, ...]:
        return tuple(row[4] for row in sorted(self._ledger(state, "ingest"), key=lambda row: row[1]) if row[1] >= of)

    def _read_plans(self, state: State, who: int, of: int) -> tuple[int, ...]:
        return tuple(sorted(one for one in self._plans(state) if one > of))

    def _read_tail(self, state: State, who: int, of: int, attempt: int = 0) -> dict[tuple[str, int], AppendedRange]:
        found = {}
        for place, topic in ((A, "a"), (B, "b")):
            values = [self.rows.values[row] for row in self.tables.values[state[place]][0]]
            own = [one for one in values if one[3] > of and one[2] == attempt]
            if own:
                offsets = [one[1] for one in own]
                part = Range(topic, 0, min(offsets), max(offsets) + 1, len(own), stream_time_ms=0)
                found[topic, 0] = AppendedRange(part, max(one[3] for one in own), 0)
        return found

    def _read_attempts(self, state: State, who: int, of: int) -> dict[tuple[str, int], AppendedRange]:
        return self._read_tail(state, who, of, attempt=1)

    def _read_ends(self, state: State, who: int, of: Any) -> dict[tuple[str, int], int]:
        return {("a", 0): state[ENDS] % 8, ("b", 0): state[ENDS] // 8}

    def _read_requests(self, state: State, who: int, of: Any) -> tuple[int, ...]:
        return tuple(sorted(self.rows.values[row][1] for row in self.tables.values[state[REPLAYS]][0]))

    def _read_requested(self, state: State, who: int, of: Any) -> str:
        return "a"

    def _read_open(self, state: State, who: int, of: Any) -> bool:
        return not self.tables.values[state[REPLAYS]][0]

    def _read_landed(self, state: State, who: int, of: int) -> bool:
        return self.rows.of(("request", of, who)) in self.tables.values[state[REPLAYS]][0]

    def _read_out(self, state: State, who: int, of: int) -> bool:
        return any(self.rows.values[row][3] == of for row in self.tables.values[state[SILVER]][0])

    def _read_repeats(self, state: State, who: int, of: Plan) -> bool:
        return False

    def _read_doubt(self, state: State, who: int, of: Plan) -> bool:
        return False

    def _read_holds(self, state: State, who: int, of: StoredState) -> bool:
        return not of.slot or slot_of(state[SLOTS], of.slot) == of.cycle

    def _read_bronze(self, state: State, who: int, of: tuple[int, int]) -> tuple[int, ...]:
        since, cycle = of
        return (cycle,) if since < cycle else ()

    def _read_tables(self, state: State, who: int, of: Mapping[str, KnownTable]) -> tuple[unchanged.Look, ...]:
        found = []
        for name in ("ledger", "a", "b", "silver"):
            rows, numbers, table_id, by = self.tables.values[state[TABLES[name]]]
            by = max([by, *(decisions.epoch_in(number) for one, number in numbers if one.startswith("bronze/"))])
            version = len(rows) if self._looks else 0
            has_records = name in ("a", "b") and bool(rows)
            cycle = max((number for _, number in numbers), default=0) if name == "silver" else 0
            found.append(
                unchanged.Look(name, str(table_id), version, written_by=by, cycle=cycle, has_records=has_records)
            )
        found.append(unchanged.Look("epochs", "1", 0, written_by=epoch_of(state[EPOCHS], commands.Turn("epoch", 0))))
        return tuple(found) if self._looks else ()

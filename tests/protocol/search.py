"""Searches all orders of a scenario breadth first, or runs deep ones at random."""

from __future__ import annotations

import random
import time
from array import array
from dataclasses import dataclass

from tests.protocol.state import NAMES, ONE, TWO, Broken, Scenario, State
from tests.protocol.world import World


@dataclass(frozen=True)
class Found:
    """What a search has seen.

    Attributes:
        states: distinct ones.
        depth: up to which number of steps every order was tried.
        whole: whether that is all that can happen.
        seconds: processor time.
        broken: the promise that does not hold; empty: all hold.
        schedule: a shortest way there.
    """

    states: int
    depth: int
    whole: bool
    seconds: float
    broken: str = ""
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.broken:
            return f"{self.states:,} states, {self.depth} steps{' (all there are)' if self.whole else ''}, {self.seconds:.0f} s"
        steps = "\n".join(f"  {place:2} {step}" for place, step in enumerate(self.schedule, 1))
        return f"{self.broken} (after {self.states:,} states, {self.seconds:.0f} s)\n{steps}"


def search(scenario: Scenario, most: int = 10**9, seconds: float = 10**9, settle_every: int = 512) -> Found:
    """Tries every order, the shortest first.

    Args:
        most: how many states at most.
        seconds: of processor time at most.
        settle_every: of one state in so many it is tried what one more undisturbed run makes of it.
    """
    world, began = World(scenario), time.process_time()
    steps, canonical = world.steps, world.canonical
    seen = {world.first}
    parents, labels = array("l", [-1]), array("l", [-1])
    level, number, depth = [world.first], 0, 0

    def found(broken: Broken | None = None, at: int = 0) -> Found:
        spent = time.process_time() - began
        if broken is None:
            return Found(len(parents), depth, not level, spent)
        way = list(broken.args[:0:-1])
        while at > 0:
            way.append(labels[at])
            at = parents[at]
        return Found(len(parents), depth, False, spent, broken.args[0], _schedule(world, way[::-1]))

    while level:
        following: list[State] = []
        for state in level:
            try:
                for label, after in steps(state):
                    one = canonical(after)
                    if one not in seen:
                        seen.add(one)
                        parents.append(number)
                        labels.append(label)
                        following.append(one)
                if settle_every and number % settle_every == 0:
                    world.settled(state)
            except Broken as broken:
                return found(broken, number)
            number += 1
            if len(parents) >= most or (number % 1024 == 0 and time.process_time() - began > seconds):
                return found()
        level, depth = following, depth + 1
    return found()


def _schedule(world: World, way: list[int]) -> tuple[str, ...]:
    """What happens on a way, each driver under one name, although states are joined in which they change places."""
    state: State | None = world.first
    changed, told = False, []
    for label in way:
        one, other = (NAMES[TWO], NAMES[ONE]) if changed else (NAMES[ONE], NAMES[TWO])
        text = world.told[label]
        told.append(text.replace(NAMES[ONE], one) if NAMES[ONE] in text else text.replace(NAMES[TWO], other))
        if state is None:
            continue  # of the run that follows a crash of all
        try:
            after = dict(world.steps(state)).get(label)
        except Broken:
            after = None
        joined = None if after is None else world.canonical(after)
        changed ^= joined != after
        state = joined
    return tuple(told)


def wander(scenario: Scenario, seed: int, runs: int, longest: int = 400) -> Found:
    """Runs at random, each to its end, and one undisturbed run behind it."""
    chance, world, began = random.Random(seed), World(scenario), time.process_time()
    seen: set[State] = set()
    deepest = 0
    for _ in range(runs):
        state, told = world.first, []
        try:
            for _ in range(longest):
                seen.add(state)
                possible = world.steps(state)
                if not possible:
                    break
                label, state = chance.choice(possible)
                told.append(label)
            deepest = max(deepest, len(told))
            world.settled(state)
        except Broken as broken:
            steps = tuple(world.told[one] for one in [*told, *broken.args[1:]])
            return Found(len(seen), len(steps), False, time.process_time() - began, broken.args[0], steps)
    return Found(len(seen), deepest, False, time.process_time() - began)

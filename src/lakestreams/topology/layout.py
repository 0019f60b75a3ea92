"""Where the boxes and edges of a drawing go: layers from left to right, no box on another, no edge through a box.

Sugiyama's method in its simplest form. Each box lies one layer past the last of its inputs. An edge over several layers
has a dummy of its own in those between, so that it passes next to their boxes; edges from one box share their dummies. The
order in a layer is by barycentre, and places are then chosen so that edges are straight where they can be.

Everything is in pixels, and nothing depends on the order of a set or a dict: equal input gives an equal layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Size: TypeAlias = "tuple[float, float]"
Point: TypeAlias = "tuple[float, float]"
Curve: TypeAlias = "tuple[Point, Point, Point, Point]"

_SWEEPS = 12
_BETWEEN_BOXES, _BY_DUMMY = 26.0, 14.0
_NARROWEST_GAP, _WIDEST_GAP, _GAP_SHARE = 52.0, 120.0, 0.25
_DUMMY_WEIGHT = 4.0  # a bend in a long edge is seen more than one in a short edge


@dataclass(frozen=True)
class Box:
    """A box in its place; `x` and `y` are its upper left corner."""

    name: str
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Where its edges leave."""
        return self.x + self.width

    @property
    def middle(self) -> float:
        """The height at which its edges leave."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Edge:
    """An edge from the right of one box to the left of another.

    Attributes:
        parent, child: the boxes' names.
        side: which of the child's inputs it is.
        curves: cubic Bezier curves, each starting where the one before ends; level at both ends.
    """

    parent: str
    child: str
    side: int
    curves: tuple[Curve, ...]

    @property
    def end(self) -> Point:
        """Where it meets the child."""
        return self.curves[-1][-1]


@dataclass(frozen=True)
class Layout:
    """Boxes in the order given, edges in the order of their children, and the room that they take."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


@dataclass(eq=False)
class _Slot:
    """A place in a layer: of a box, or of the dummy (without a name) that edges pass in. `y` is its centre."""

    name: str | None
    width: float = 0.0
    height: float = 0.0
    ups: list[_Slot] = field(default_factory=list)
    downs: list[_Slot] = field(default_factory=list)
    place: int = 0
    y: float = 0.0

    def port(self, side: int) -> float:
        """How far from its centre an input comes in; the inputs are in the order of where they come from."""
        order = sorted(range(len(self.ups)), key=lambda other: (self.ups[other].place, other))
        return self.height * ((order.index(side) + 1) / (len(order) + 1) - 0.5)


def lay_out(
    sizes: Mapping[str, Size], parents: Mapping[str, Sequence[str]], behind: Mapping[str, float] | None = None
) -> Layout:
    """Finds a place for each box and a way for each edge.

    Args:
        sizes: the boxes' least widths and their heights by name. Those of one layer are made equally wide.
        parents: the inputs of each box, in their order; a box comes after its inputs.
        behind: how much room there is at least between a box and the next layer, of the boxes that need some.
    """
    layers = _layers(sizes, parents)
    _order(layers)
    _place(layers)
    return _drawn(layers, list(sizes), behind or {})


# --- layers --------------------------------------------------------------------------------------------------------


def _layers(sizes: Mapping[str, Size], parents: Mapping[str, Sequence[str]]) -> list[list[_Slot]]:
    """The slots of each layer in the order of declaration, joined to those of the neighbouring layers."""
    level = _levels(parents)
    layers: list[list[_Slot]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    reached: dict[tuple[str, int], _Slot] = {}  # how far a box's output has come: by its name and a layer
    for name, inputs in parents.items():
        width, height = sizes[name]
        slot = _Slot(name, width, height)
        layers[level[name]].append(slot)
        reached[name, level[name]] = slot
        for parent in inputs:
            for passed in range(level[parent] + 1, level[name]):
                if (parent, passed) not in reached:
                    dummy = reached[parent, passed] = _Slot(None)
                    layers[passed].append(dummy)
                    _join(reached[parent, passed - 1], dummy)
            _join(reached[parent, level[name] - 1], slot)
    return layers


def _levels(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Each box's layer: the longest way to it; a way that nothing joins begins as late as it can, for short edges."""
    level: dict[str, int] = {}
    nearest: dict[str, int] = {}
    for name, inputs in parents.items():
        level[name] = max((level[parent] + 1 for parent in inputs), default=0)
    for name, inputs in reversed(list(parents.items())):
        if len(inputs) < 2 and name in nearest:
            level[name] = nearest[name] - 1
        for parent in inputs:
            nearest[parent] = min(nearest.get(parent, level[name]), level[name])
    return level


def _join(up: _Slot, down: _Slot) -> None:
    up.downs.append(down)
    down.ups.append(up)


# --- order ---------------------------------------------------------------------------------------------------------


def _order(layers: list[list[_Slot]]) -> None:
    """Orders each layer by the mean place of what its slots hang on, to and fro, and keeps the best order of all."""
    _follow_inputs(layers)
    best = [list(layer) for layer in layers]
    least = _tangle(layers)
    for sweep in range(_SWEEPS):
        if least == (0, 0):
            break
        if sweep % 2 == 0:
            for layer in layers:
                layer.sort(key=_barycentre_of_ups)
                _number(layer)
        else:
            for layer in reversed(layers):
                layer.sort(key=_barycentre_of_downs)
                _number(layer)
        tangle = _tangle(layers)
        if tangle < least:
            least, best = tangle, [list(layer) for layer in layers]
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept
        _number(layer)


def _follow_inputs(layers: Sequence[list[_Slot]]) -> None:
    """The order to start from: each output's inputs from the first to the last. It is the right one for trees."""
    met: dict[_Slot, int] = {}
    for layer in layers:
        for slot in layer:
            if not slot.downs:
                _meet(slot, met)
    for layer in layers:
        layer.sort(key=met.__getitem__)
        _number(layer)


def _meet(slot: _Slot, met: dict[_Slot, int]) -> None:
    if slot not in met:
        for up in slot.ups:
            _meet(up, met)
        met[slot] = len(met)


def _number(layer: Sequence[_Slot]) -> None:
    for place, slot in enumerate(layer):
        slot.place = place


def _barycentre_of_ups(slot: _Slot) -> float:
    return sum(up.place for up in slot.ups) / len(slot.ups) if slot.ups else slot.place


def _barycentre_of_downs(slot: _Slot) -> float:
    return sum(down.place for down in slot.downs) / len(slot.downs) if slot.downs else slot.place


def _tangle(layers: Sequence[Sequence[_Slot]]) -> tuple[int, int]:
    """How many edges cross, then how many boxes have a later input above an earlier one."""
    crossed = inverted = 0
    for layer in layers:
        ends = [(slot.place, down.place) for slot in layer for down in slot.downs]
        crossed += sum((a - c) * (b - d) < 0 for index, (a, b) in enumerate(ends) for c, d in ends[:index])
        inverted += sum(above.place > below.place for slot in layer for above, below in pairwise(slot.ups))
    return crossed, inverted


# --- places --------------------------------------------------------------------------------------------------------


def _place(layers: Sequence[Sequence[_Slot]]) -> None:
    """Finds the heights: every slot as near as its neighbours in the layer let it to what it hangs on."""
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for _ in range(_SWEEPS):
        for layer in layers:
            _spread(layer, [_level_with_ups(slot) for slot in layer])
        for layer in reversed(layers):
            _spread(layer, [_level_with_downs(slot) for slot in layer])
    for _ in range(_SWEEPS):
        for layer in layers:
            _spread(layer, [_straight_with_up(slot) for slot in layer])
        for layer in reversed(layers):
            _spread(layer, [_straight_with_down(slot) for slot in layer])
    top = min((slot.y - slot.height / 2 for layer in layers for slot in layer), default=0.0)
    for layer in layers:
        for slot in layer:
            slot.y -= top


def _level_with_ups(slot: _Slot) -> float:
    wanted = [up.y - slot.port(side) for side, up in enumerate(slot.ups)]
    return sum(wanted) / len(wanted) if wanted else slot.y


def _level_with_downs(slot: _Slot) -> float:
    wanted = [
        down.y + down.port(side) for down in dict.fromkeys(slot.downs) for side, up in enumerate(down.ups) if up is slot
    ]
    return sum(wanted) / len(wanted) if wanted else slot.y


def _straight_with_up(slot: _Slot) -> float:
    """A slot and what feeds it alone and first, such as the stream that goes through a join: one line, if straight."""
    return slot.ups[0].y - slot.port(0) if slot.ups and _goes_on(slot.ups[0], slot) else slot.y


def _straight_with_down(slot: _Slot) -> float:
    return slot.downs[0].y + slot.downs[0].port(0) if slot.downs and _goes_on(slot, slot.downs[0]) else slot.y


def _goes_on(up: _Slot, down: _Slot) -> bool:
    return down.ups[0] is up and len(set(up.downs)) == 1


def _spread(layer: Sequence[_Slot], wanted: Sequence[float]) -> None:
    """Puts the slots where they want to be, or as near as their order and distances allow.

    Least squares under order: slots that would overlap form a block, which lies at the mean of what its slots want
    (pool adjacent violators).
    """
    offsets = [0.0]
    for above, below in pairwise(layer):
        between = _BY_DUMMY if above.name is None or below.name is None else _BETWEEN_BOXES
        offsets.append(offsets[-1] + (above.height + below.height) / 2 + between)
    blocks: list[tuple[float, float, int]] = []  # where a block lies, its weight, how many slots it has
    for slot, want, offset in zip(layer, wanted, offsets, strict=False):
        block = (want - offset, _DUMMY_WEIGHT if slot.name is None else 1.0, 1)
        while blocks and blocks[-1][0] > block[0]:
            at, weight, count = blocks.pop()
            both = weight + block[1]
            block = ((at * weight + block[0] * block[1]) / both, both, count + block[2])
        blocks.append(block)
    places = [at for at, _, count in blocks for _ in range(count)]
    for slot, at, offset in zip(layer, places, offsets, strict=False):
        slot.y = at + offset


# --- geometry ------------------------------------------------------------------------------------------------------


def _drawn(layers: Sequence[Sequence[_Slot]], names: Sequence[str], behind: Mapping[str, float]) -> Layout:
    boxes: dict[str, Box] = {}
    columns: dict[_Slot, tuple[float, float]] = {}  # where a slot's layer begins and ends
    x = 0.0
    for layer in layers:
        width = max(slot.width for slot in layer)
        for slot in layer:
            columns[slot] = (x, x + width)
            if slot.name is not None:
                boxes[slot.name] = Box(slot.name, x, slot.y - slot.height / 2, width, slot.height)
        x += width + max([_gap(layer), *(behind.get(slot.name or "", 0.0) for slot in layer)])
    slots = {slot.name: slot for slot in columns if slot.name is not None}
    return Layout(
        tuple(boxes[name] for name in names),
        tuple(_edge(slots[name], side, columns) for name in names for side in range(len(slots[name].ups))),
        max((box.right for box in boxes.values()), default=0.0),
        max((slot.y + slot.height / 2 for slot in columns), default=0.0),
    )


def _gap(layer: Sequence[_Slot]) -> float:
    """The room behind a layer: the more its edges rise or fall, the wider, so that they do not become steep."""
    steepest = max((abs(slot.y - down.y) for slot in layer for down in slot.downs), default=0.0)
    return min(max(_NARROWEST_GAP, steepest * _GAP_SHARE), _WIDEST_GAP)


def _edge(child: _Slot, side: int, columns: Mapping[_Slot, tuple[float, float]]) -> Edge:
    """The way back from a box's input to where it comes from: through dummies level, in the gaps between as an S."""
    up = child.ups[side]
    curves = [_curve((columns[up][1], up.y), (columns[child][0], child.y + child.port(side)))]
    while up.name is None:
        dummy, up = up, up.ups[0]
        begin, end = columns[dummy]
        curves.append(_curve((begin, dummy.y), (end, dummy.y)))
        curves.append(_curve((columns[up][1], up.y), (begin, dummy.y)))
    return Edge(up.name, child.name or "", side, tuple(reversed(curves)))


def _curve(start: Point, end: Point) -> Curve:
    """An S that is level at both ends and never leaves the room between them."""
    half = (start[0] + end[0]) / 2
    return (start, (half, start[1]), (half, end[1]), end)

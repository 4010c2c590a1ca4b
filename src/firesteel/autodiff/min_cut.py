"""Minimum cuts of directed graphs: what is kept between forward and backward is one.

Vertices are numbers. Vertices that cannot be parted from the source or the sink are merged with it first, and parts
that hang together only through source and sink are cut one by one, so that little is left for the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Edge = tuple[int, int, int]
INFINITE = 1 << 60


def sink_side(count: int, edges: Sequence[Edge], source: int, sink: int) -> list[bool]:
    """For each vertex whether it is on the sink's side of a minimum cut of ``edges`` (from, to, capacity).

    Of all minimum cuts it is the one nearest to the sink.

    >>> sink_side(4, [(0, 1, 5), (1, 2, 3), (2, 3, 3)], 0, 3)
    [False, False, False, True]
    """
    from_source = _reach(count, source, ((a, b) for a, b, c in edges if c >= INFINITE))
    to_sink = _reach(count, sink, ((b, a) for a, b, c in edges if c >= INFINITE))
    if from_source[sink]:
        raise ValueError("source and sink cannot be parted")
    place = [source if from_source[i] else sink if to_sink[i] else i for i in range(count)]
    merged: dict[tuple[int, int], int] = {}
    for a, b, capacity in edges:
        a, b = place[a], place[b]
        if a != b and a != sink and b != source and capacity:
            merged[a, b] = min(merged.get((a, b), 0) + capacity, INFINITE)
    side = [vertex == sink for vertex in place]
    for part in _parts(count, merged, source, sink):
        for vertex in _cut(part, source, sink):
            side[vertex] = True
    return side


def _reach(count: int, start: int, edges: Iterable[tuple[int, int]]) -> list[bool]:
    following: dict[int, list[int]] = {}
    for a, b in edges:
        following.setdefault(a, []).append(b)
    reached = [False] * count
    reached[start] = True
    open_vertices = [start]
    while open_vertices:
        for vertex in following.get(open_vertices.pop(), ()):
            if not reached[vertex]:
                reached[vertex] = True
                open_vertices.append(vertex)
    return reached


def _parts(count: int, merged: dict[tuple[int, int], int], source: int, sink: int) -> list[list[Edge]]:
    """The edges of each connected part, source and sink left out of account."""
    leader = list(range(count))

    def find(vertex: int) -> int:
        while leader[vertex] != vertex:
            leader[vertex] = leader[leader[vertex]]
            vertex = leader[vertex]
        return vertex

    ends = (source, sink)
    for a, b in merged:
        if a not in ends and b not in ends:
            leader[find(a)] = find(b)
    parts: dict[int, list[Edge]] = {}
    for (a, b), capacity in merged.items():
        inner = a if a not in ends else b
        if inner not in ends:
            parts.setdefault(find(inner), []).append((a, b, capacity))
    return list(parts.values())


def _cut(edges: list[Edge], source: int, sink: int) -> Iterable[int]:
    """The vertices of one part on the sink's side."""
    vertices = {vertex for a, b, _ in edges for vertex in (a, b)} - {source, sink}
    starts, ends = {a for a, _, _ in edges}, {b for _, b, _ in edges}
    if source not in starts or sink not in ends:
        return vertices if sink in ends else ()  # nothing flows
    if len(vertices) == 1:
        (vertex,) = vertices
        inward = sum(capacity for a, b, capacity in edges if a == source and b == vertex)
        outward = sum(capacity for a, b, capacity in edges if a == vertex and b == sink)
        return (vertex,) if inward < outward else ()
    return _search(edges, source, sink)


def _search(edges: list[Edge], source: int, sink: int) -> set[int]:
    """The vertices from which the sink can still be reached when as much flows as can."""
    left: dict[int, dict[int, int]] = {source: {}, sink: {}}
    for a, b, capacity in edges:
        left.setdefault(a, {})[b] = capacity
        left.setdefault(b, {}).setdefault(a, 0)
    while distances := _distances(left, source, sink):
        _fill(left, distances, source, sink)
    return {vertex for vertex in _distances(left, None, sink) if vertex not in (source, sink)}


def _distances(left: dict[int, dict[int, int]], source: int | None, sink: int) -> dict[int, int]:
    """How far it is to the sink along edges with something left; empty where the source cannot get there."""
    distances, layer = {sink: 0}, [sink]
    while layer:
        following = []
        for b in layer:
            for a in left[b]:
                if a not in distances and left[a][b]:
                    distances[a] = distances[b] + 1
                    following.append(a)
        layer = following
    return distances if source is None or source in distances else {}


def _fill(left: dict[int, dict[int, int]], distances: dict[int, int], source: int, sink: int) -> None:
    """Let flow what can along shortest ways, each step of which leads nearer to the sink."""
    untried = {vertex: iter(list(left[vertex])) for vertex in distances}
    way = [source]
    while way:
        a = way[-1]
        if a == sink:
            steps = list(zip(way, way[1:], strict=False))
            most = min(left[x][y] for x, y in steps)
            for x, y in steps:
                left[x][y] -= most
                left[y][x] += most
            way = way[:next(k for k, (x, y) in enumerate(steps) if not left[x][y]) + 1]
            untried[way[-1]] = iter(list(left[way[-1]]))
            continue
        for b in untried[a]:
            if left[a][b] and distances.get(b, -1) == distances[a] - 1:
                way.append(b)
                break
        else:
            distances[a] = -2  # nothing more gets through here
            way.pop()

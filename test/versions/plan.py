"""Pure: which parts run which version, in which order. A room is (metadata, nodes, mounts), each 0 (old) or 1 (new)."""

PARTS = ("metadata", "nodes", "mounts")

# By the rule of docs/operations.md, "Versions".
SHORT = ((1, 0, 0), (1, 1, 0), (1, 1, 1))
# The same; then, one part at a time, through every other room there is, back to where it began.
LONG = (*SHORT, (1, 0, 1), (0, 0, 1), (0, 1, 1), (0, 1, 0), (0, 0, 0))


def changes(walk, begin=(0, 0, 0)):
    """Of each step (part, version, the room afterwards)."""
    found, room = [], begin
    for after in walk:
        parts = [i for i in range(len(PARTS)) if room[i] != after[i]]
        assert len(parts) == 1, f"{room} to {after} is not one step"
        found.append((PARTS[parts[0]], after[parts[0]], after))
        room = after
    return found


def told(room):
    return ", ".join(f"{part} {('old', 'new')[version]}" for part, version in zip(PARTS, room))

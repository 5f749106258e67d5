"""Two metadata servers of a scenario: who serves, and whether both are in sync."""

from stria_cluster import wait_for

NAMES = ["meta1", "meta2"]
SETTLES_S = 90


def is_well(status):
    """Both are in sync, and one of them serves."""
    roles = {m["name"]: m["role"] for m in status.get("members", [])}
    return status.get("in_sync") == NAMES and roles.get(status["primary"]) == "primary" and sorted(roles.values()) == ["primary", "standby"]


def serves(cluster, name):
    status = cluster.members()
    return status.get("primary") == name and any(m["name"] == name and m["role"] == "primary" for m in status["members"]) and status


def settled(cluster):
    def well():
        status = cluster.members()
        return is_well(status) and status
    return wait_for("both metadata servers are in sync", well, SETTLES_S)

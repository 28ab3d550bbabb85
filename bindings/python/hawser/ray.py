"""Trains with ranks that are actors of Ray.

    import hawser.ray, ray
    ray.init()
    result = hawser.ray.train(config, ranks=4)

Each rank is an actor of a placement group. If an actor or its node is lost, the other ranks fail at once, and the job
restarts all ranks from the newest checkpoint. Needs the package ray.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]
from ray.util.placement_group import placement_group, remove_placement_group  # type: ignore[import-not-found,import-untyped,unused-ignore]
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # type: ignore[import-not-found,import-untyped,unused-ignore]

from . import _elastic
from .config import Config


class _Rank:
    def __init__(self, rank: int):
        self._rank = rank

    def address(self) -> str:
        return _elastic.free_address(ray.util.get_node_ip_address())

    def train(self, attempt: _elastic.Attempt, address: str) -> _elastic.Ended:
        return _elastic.run_rank(attempt, self._rank, address)


def _collect(calls: list[Any]) -> list[_elastic.Ended]:
    """Returns the results of all calls. If an actor is lost, raises LostRank after the other calls have ended."""
    ended, lost = [], None
    for call in calls:
        try:
            ended.append(ray.get(call))
        except ray.exceptions.RayActorError as error:
            lost = error
    if lost is not None:
        raise _elastic.LostRank(str(lost).strip())
    return ended


def train(
    config: Config | Mapping[str, Any] | str | os.PathLike[str],
    ranks: int,
    *,
    min_ranks: int | None = None,
    resources: Mapping[str, float] | None = None,
    strategy: str = "PACK",
    setup: _elastic.Setup | None = None,
    callback: _elastic.Callback | None = None,
    trust_network: bool = False,
    max_losses: int = 10,
) -> dict[str, Any]:
    """Trains the config to its end on `ranks` ranks, and continues after the loss of ranks. Returns a dict: "step",
    "loss" (of the last step), "ranks" (of the last attempt), "began" (the step from which that attempt continued) and
    "losses" (a description of each loss).

    config: all nodes must see the folder /checkpoint/path. After a loss, training continues with as many ranks as the
    cluster has room for, at least min_ranks (None: ranks) and at most ranks, with the same rows in each step. Results
    are bit-identical to a run that stopped at the checkpoint and resumed on these ranks.

    resources: the resources of each rank; None: {"CPU": 1}. strategy: the strategy of the placement group.

    setup(engine, rank) runs in each rank before it trains, for example to set a source. callback(record) runs in rank
    0 after each step, like the callback of Engine.train. Both are sent to the actors.

    trust_network: connect without a secret. max_losses: the number of losses in a row, without a new checkpoint, that
    ends the job.

    Raises ConfigInvalid and other errors that a retry would repeat, Unavailable after too many losses.
    """
    bundle = {"CPU": 1.0} if resources is None else dict(resources)

    def available() -> int:
        there = ray.cluster_resources()
        return int(min(there.get(name, 0.0) // amount for name, amount in bundle.items() if amount > 0))

    def start(attempt: _elastic.Attempt) -> list[_elastic.Ended]:
        group = placement_group([bundle] * attempt.ranks, strategy=strategy)
        try:
            ray.get(group.ready())
            actors = [
                ray.remote(_Rank).options(
                    num_cpus=bundle.get("CPU", 0),
                    num_gpus=bundle.get("GPU", 0),
                    resources={name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")},
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
                ).remote(rank)
                for rank in range(attempt.ranks)
            ]
            address = _collect([actors[0].address.remote()])[0]
            return _collect([actor.train.remote(attempt, address) for actor in actors])
        finally:
            remove_placement_group(group)  # ends the remaining actors

    return _elastic.train(start, available, config, ranks, min_ranks=min_ranks, setup=setup, callback=callback,
                          trust_network=trust_network, max_losses=max_losses)  # fmt: skip


__all__ = ["train"]

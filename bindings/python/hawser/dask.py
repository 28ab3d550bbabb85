"""Trains with ranks on workers of Dask.

    import hawser.dask
    from distributed import Client
    result = hawser.dask.train(Client(address), config, ranks=4)

Each rank is a task on a worker of its own. If a worker is lost, the other ranks fail at once, and the job restarts all
ranks from the newest checkpoint. Needs the package distributed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Client, wait  # type: ignore[import-not-found,import-untyped,unused-ignore]

from . import _elastic
from .config import Config


def train(
    client: Client,
    config: Config | Mapping[str, Any] | str | os.PathLike[str],
    ranks: int,
    *,
    min_ranks: int | None = None,
    setup: _elastic.Setup | None = None,
    callback: _elastic.Callback | None = None,
    trust_network: bool = False,
    max_losses: int = 10,
) -> dict[str, Any]:
    """Trains the config to its end on `ranks` workers, and continues after the loss of workers. Returns a dict:
    "step", "loss" (of the last step), "ranks" (of the last attempt), "began" (the step from which that attempt
    continued) and "losses" (a description of each loss).

    config: all workers must see the folders of its data and of /checkpoint/path. After a loss, training continues with
    as many ranks as there are workers, at least min_ranks (None: ranks) and at most ranks, with the same rows in each
    step. It waits for missing workers. Results are bit-identical to a run that stopped at the checkpoint and resumed
    on these ranks.

    setup(engine, rank) runs in each rank before it trains, for example to set a source. callback(record) runs in rank
    0 after each step, like the callback of Engine.train. Both are sent to the workers.

    trust_network: connect without a secret. max_losses: the number of losses in a row, without a new checkpoint, that
    ends the job.

    Raises ConfigInvalid and other errors that a retry would repeat, Unavailable after too many losses.
    """

    def workers() -> dict[str, dict[str, Any]]:
        return client.scheduler_info(n_workers=-1)["workers"]

    def start(attempt: _elastic.Attempt) -> list[_elastic.Ended]:
        client.wait_for_workers(attempt.ranks)
        there = sorted(workers().items())[: attempt.ranks]

        def on(rank: int, function: Callable[..., Any], *arguments: Any) -> Any:
            return client.submit(function, *arguments, workers=[there[rank][0]], pure=False)

        calls = [on(0, _elastic.free_address, there[0][1]["host"])]
        try:
            address = _results(calls, there[:1], workers)[0]
            calls = [on(rank, _elastic.run_rank, attempt, rank, address) for rank in range(attempt.ranks)]
            return _results(calls, there, workers)
        finally:
            client.cancel(calls, force=True)  # Dask would run a lost task again on a worker that comes back

    return _elastic.train(start, lambda: len(workers()), config, ranks, min_ranks=min_ranks, setup=setup,
                          callback=callback, trust_network=trust_network, max_losses=max_losses)  # fmt: skip


def _results(calls: list[Any], there: list[Any], workers: Callable[[], dict[str, Any]]) -> list[Any]:
    """Returns the results of all calls. Raises LostRank when a worker is lost and the other calls have ended."""
    waiting, lost = dict(enumerate(calls)), None
    while waiting:
        try:
            wait(list(waiting.values()), timeout=1, return_when="FIRST_COMPLETED")
        except TimeoutError:
            pass
        known = workers()
        for rank, call in list(waiting.items()):
            if there[rank][0] not in known:
                lost = _elastic.LostRank(f"the worker {there[rank][0]} of rank {rank} is gone")
            if call.done() or there[rank][0] not in known:
                del waiting[rank]
    if lost is not None:
        raise lost
    return [call.result() for call in calls]


__all__ = ["train"]
